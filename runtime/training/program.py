"""A training program by itself, without suite and measurement: it trains, saves, goes on, and tells a line of each."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import jax
import numpy as np
from etils import epath

from runtime.contract.counting import counted
from runtime.contract.errors import BadInput
from runtime.contract.options_training import TransformerOptions
from runtime.contract.pod import number_told, place_in_pods
from runtime.distributed import keep_proxies_out_of
from runtime.measure import Block, Operation
from runtime.steps import NotResumed
from runtime.training.checkpoints import opened
from runtime.training.loop import Loop
from runtime.training.model import Programs, Trainer, programs
from runtime.training.transformer import MODEL, Transformer

Tell = Callable[[str], None]


def train(given: TransformerOptions, parts: int, seed: int, tell: Tell) -> None:
    """Trains until the last step. `parts`: how many devices share a layer; the others share the data.

    Its lines: `trains until step N on …` first, then those of runtime.training.loop.Loop. Raises BadInput; NotEqual
    where a checkpoint does not hold what its step saved; NotFinite where the loss is no number any more.
    """
    assert given.directory is not None
    trainer = Trainer(_programs(given, parts), seed)
    with contextlib.closing(opened(given, _folder(given.directory))) as manager:
        tell(f"trains until step {given.train_steps - 1} on {counted(jax.device_count(), 'device')}")
        try:
            Loop(given, trainer, manager, _Timed(), tell).run()
        except NotResumed as error:  # of which here only what was given to begin with can be the reason
            raise BadInput(str(error), fix="name the folder of a step that is complete") from error


def _folder(directory: str) -> epath.Path:
    """Returns where checkpoints lie, made if it is a folder. Raises BadInput where nothing can be written there."""
    if "://" in directory:
        return epath.Path(directory)
    path = Path(directory).absolute()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(
            f"{path} cannot be made: {error.strerror}", fix="name another folder as --directory"
        ) from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise BadInput(f"{path} is not writable", fix="name another folder as --directory")
    return epath.Path(path)


class _Timed:
    """Times what is to be timed, and lets all else go by: its lines are all that there is."""

    @contextlib.contextmanager
    def measure(
        self, operation: str, *, payload_bytes: int | None = None, in_background: bool = False
    ) -> Iterator[Block]:
        block = Block(Operation(operation))
        began = time.perf_counter()
        yield block
        block.seconds = time.perf_counter() - began

    def found(self, newest: int | None) -> None: ...

    def went_on(self, step: int, took: Block, *, own: bool) -> None: ...

    def begins(self, step: int) -> None: ...

    def stepped(self, step: int, loss: float, seconds: float, *, beside_save: bool) -> None: ...

    def trained(self, step: int) -> None: ...

    def saving(self, step: int) -> None: ...

    def saved(self, step: int, seconds: float) -> None: ...


def join(environ: Mapping[str, str] = os.environ) -> None:
    """Meets the other processes, where the environment says that there are any: JAX's variables, those that pods of
    our workloads have, or a TPU's own. Raises BadInput where they are none.
    """
    address = environ.get("JAX_COORDINATOR_ADDRESS", "")
    if address and environ.get("JAX_PROCESS_COUNT"):
        if (count := number_told(environ, "JAX_PROCESS_COUNT")) > 1:
            port, (number, _) = number_told(environ, "JAX_COORDINATOR_PORT"), place_in_pods(environ)
            keep_proxies_out_of(f"{address}:{port}")
            jax.distributed.initialize(
                f"{address}:{port}", count, number, cluster_detection_method="deactivate"
            )
    elif address:
        told, of = (environ.get(name, "") for name in ("JAX_PROCESS_ID", "JAX_NUM_PROCESSES"))
        if not (told.isdecimal() and of.isdecimal() and int(told) < int(of)):
            raise BadInput(
                f"JAX_PROCESS_ID {told!r} and JAX_NUM_PROCESSES {of!r} do not fit",
                fix="set both, the id from 0 to the number less one",
            )
        keep_proxies_out_of(address)
        jax.distributed.initialize(address, int(of), int(told), cluster_detection_method="deactivate")
    elif "," in environ.get("TPU_WORKER_HOSTNAMES", "") or environ.get("MEGASCALE_NUM_SLICES", "1") != "1":
        first = environ.get("MEGASCALE_COORDINATOR_ADDRESS") or environ.get("TPU_WORKER_HOSTNAMES", "")
        keep_proxies_out_of(f"{first.partition(',')[0].partition(':')[0]}:0")  # where JAX itself looks
        jax.distributed.initialize()


def _programs(given: TransformerOptions, parts: int) -> Programs:
    devices = np.array(jax.devices())
    if devices.size % parts:
        raise BadInput(
            f"{counted(devices.size, 'device')} cannot be shared evenly by --model-parallel {parts}"
        )
    mesh = jax.sharding.Mesh(devices.reshape(-1, parts), ("data", MODEL))
    model = Transformer(given.layers, given.width, given.heads, given.vocabulary, given.sequence, given.batch)
    try:
        return programs(model, mesh)
    except ValueError as error:
        raise BadInput(str(error)) from error
