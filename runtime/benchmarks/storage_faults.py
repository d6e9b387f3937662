"""Saves and restores through an object store that is slow and refuses requests: what do its faults cost?"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import jax
import orbax.checkpoint as ocp

from runtime import pytree
from runtime.benchmarks.benchmark import Benchmark, Context, NotRun
from runtime.contract.options_strains import StorageFaultsOptions
from runtime.faulty_store import REAL, FaultyStore

_VARIABLE = "TENSORSTORE_GCS_HTTP_URL"
"""Where TensorStore looks for Cloud Storage, each time it opens something there."""


class StorageFaults(Benchmark):
    """Operations: `save` and `restore` with the faults, `save_undisturbed` and `restore_undisturbed` without, all
    through a front on each worker's host. `requests` and `faults` stand beside the first two.

    It needs an output in Cloud Storage. What TensorStore moves meets the faults: the arrays, and not the small files of
    metadata, which Orbax writes in another way.
    """

    options_class = StorageFaultsOptions
    options: StorageFaultsOptions

    def run(self, context: Context) -> None:
        if not str(context.path).startswith("gs://"):
            raise NotRun("it needs an output in a bucket: gs://…")
        given, upstream = self.options, os.environ.get(_VARIABLE, REAL)
        store = FaultyStore(upstream, status=given.status, fraction=given.fraction, latency_s=given.latency_s)
        with store, _through(store.url):
            self._both(context, store, disturbed=False)
            self._both(context, store, disturbed=True)

    def _both(self, context: Context, store: FaultyStore, *, disturbed: bool) -> None:
        suffix = "" if disturbed else "_undisturbed"
        store.disturbs = disturbed
        path, target = context.path / f"with{suffix}", pytree.abstract(context.tree)
        wanted = ocp.args.PyTreeRestore(
            item=target, restore_args=ocp.checkpoint_utils.construct_restore_args(target)
        )
        with contextlib.closing(ocp.Checkpointer(ocp.PyTreeCheckpointHandler())) as checkpointer:
            before = store.requests, store.faults
            with context.measure(f"save{suffix}", payload_bytes=pytree.saved_bytes(context.tree)):
                checkpointer.save(path, args=ocp.args.PyTreeSave(context.tree))
            before = _tell(context, store, f"save{suffix}", before)
            with context.measure(f"restore{suffix}", payload_bytes=pytree.held_bytes(target)):
                restored: Any = checkpointer.restore(path, args=wanted)
                jax.block_until_ready(restored)
            _tell(context, store, f"restore{suffix}", before)
        context.verify(restored)
        pytree.free(restored)


def _tell(context: Context, store: FaultyStore, operation: str, before: tuple[int, int]) -> tuple[int, int]:
    """Records what an operation met."""
    now = store.requests, store.faults
    if store.disturbs:
        context.value(operation, "requests", now[0] - before[0], "count")
        context.value(operation, "faults", now[1] - before[1], "count")
    return now


@contextlib.contextmanager
def _through(url: str) -> Iterator[None]:
    """Lets TensorStore find the object store behind `url` while inside."""
    before = os.environ.get(_VARIABLE)
    os.environ[_VARIABLE] = url
    try:
        yield
    finally:
        if before is None:
            del os.environ[_VARIABLE]
        else:
            os.environ[_VARIABLE] = before
