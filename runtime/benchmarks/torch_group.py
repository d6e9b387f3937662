"""Lets all workers meet in torch.distributed: Orbax's benchmark of PyTorch takes for given that a launcher did."""

from __future__ import annotations

import importlib
from typing import Any

import jax

from runtime import distributed


def join(backend: str = "nccl") -> None:
    """Makes the default process group of all workers, once. To be called by all of them."""
    dist: Any = importlib.import_module("torch.distributed")
    if dist.is_initialized():
        return
    worker, workers = jax.process_index(), jax.process_count()
    store = dist.HashStore() if workers == 1 else _shared(dist, worker, workers)
    dist.init_process_group(backend, store=store, rank=worker, world_size=workers)


def _shared(dist: Any, worker: int, workers: int) -> Any:
    """Returns the store that worker 0 serves, at a port of the kernel's choice, where JAX's coordinator is."""
    from jax._src import distributed as of_jax  # JAX tells it nowhere else

    host = str(of_jax.global_state.coordinator_address).rpartition(":")[0].strip("[]")
    served = dist.TCPStore(host, 0, workers, True, wait_for_workers=False) if worker == 0 else None
    port = distributed.largest(served.port if served is not None else 0)
    return served or dist.TCPStore(host, port, workers, False)
