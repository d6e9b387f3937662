"""Saves and restores again and again in one process: how much more memory does each time leave behind?"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import itertools
import statistics
from collections.abc import Sequence

import jax
import orbax.checkpoint as ocp
import psutil

from runtime import folders, pytree
from runtime.benchmarks.benchmark import Benchmark, Context
from runtime.contract.options_strains import MemoryGrowthOptions


class MemoryGrowth(Benchmark):
    """Operations: `save`, `wait_until_finished`, `restore`, `cycles` times each, and `cycle`, with `rss_after_bytes`,
    what the process holds after each. `growth_bytes_per_cycle` is the median of the slopes between any two of them.
    """

    options_class = MemoryGrowthOptions
    options: MemoryGrowthOptions

    def run(self, context: Context) -> None:
        held: list[int] = []
        for number in range(self.options.settle + self.options.cycles):
            with context.measure("cycle"):
                self._cycle(context, number)
            if number >= self.options.settle:
                held.append(held_now())
                context.value("cycle", "rss_after_bytes", held[-1], "bytes")
        context.value("cycle", "growth_bytes_per_cycle", slope(held), "bytes")

    def _cycle(self, context: Context, number: int) -> None:
        path, target = context.path / str(number), pytree.abstract(context.tree)
        size = pytree.saved_bytes(context.tree)
        handler, goes_on = ocp.PyTreeCheckpointHandler(), self.options.async_enabled
        kind = ocp.AsyncCheckpointer if goes_on else ocp.Checkpointer
        with contextlib.closing(kind(handler)) as checkpointer:
            with context.measure("save", payload_bytes=size, in_background=goes_on) as save:
                checkpointer.save(path, args=ocp.args.PyTreeSave(context.tree))
            if goes_on:
                with context.measure("wait_until_finished") as wait:
                    checkpointer.wait_until_finished()
                context.recorder.throughput(size, save, wait)
            wanted = ocp.args.PyTreeRestore(
                item=target, restore_args=ocp.checkpoint_utils.construct_restore_args(target)
            )
            with context.measure("restore", payload_bytes=pytree.held_bytes(target)):
                restored = checkpointer.restore(path, args=wanted)
                jax.block_until_ready(restored)
        context.verify(restored)
        pytree.free(restored)
        ocp.multihost.sync_global_processes("cycle")
        if jax.process_index() == 0:
            folders.remove(path)


def held_now() -> int:
    """Returns the resident memory of this process, once all that nobody needs was given back to the system."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):  # another C library keeps what it has
        ctypes.CDLL(None).malloc_trim(0)
    resident: int = psutil.Process().memory_info().rss
    return resident


def slope(values: Sequence[float]) -> float:
    """Returns the median of the slopes between any two values: one that stands out does not bend it."""
    pairs = itertools.combinations(enumerate(values), 2)
    return statistics.median((b - a) / (j - i) for (i, a), (j, b) in pairs)
