"""Saves and restores with one worker that comes late, in turn with all in time: how long does it hold up the others?"""

from __future__ import annotations

import contextlib
import statistics
import time

import jax
import orbax.checkpoint as ocp

from runtime import pytree
from runtime.benchmarks.benchmark import Benchmark, Context
from runtime.contract.options_strains import SlowWorkerOptions

LATE = "_with_slow_worker"
"""What is added to the names of operations to which one worker came late."""


class SlowWorker(Benchmark):
    """Operations: `save` and `restore`, all workers in time; `save_with_slow_worker` and `restore_with_slow_worker`.
    `held_up_s`, on the workers that were in time, is the difference of the medians: what they lost.
    """

    options_class = SlowWorkerOptions
    options: SlowWorkerOptions

    def run(self, context: Context) -> None:
        given = self.options
        if given.slow_worker >= jax.process_count():
            raise ValueError(
                f"slow_worker is {given.slow_worker}, and there are {jax.process_count()} workers"
            )
        took: dict[str, list[float]] = {}
        target, saved = pytree.abstract(context.tree), pytree.saved_bytes(context.tree)
        wanted = ocp.args.PyTreeRestore(
            item=target, restore_args=ocp.checkpoint_utils.construct_restore_args(target)
        )
        with contextlib.closing(ocp.Checkpointer(ocp.PyTreeCheckpointHandler())) as checkpointer:
            for number in range(2 * given.rounds):
                late = LATE if number % 2 else ""
                path = context.path / str(number)
                self._meet(late)
                with context.measure(f"save{late}", payload_bytes=saved) as save:
                    checkpointer.save(path, args=ocp.args.PyTreeSave(context.tree))
                self._meet(late)
                held = pytree.held_bytes(target)
                with context.measure(f"restore{late}", payload_bytes=held) as restore:
                    restored = jax.block_until_ready(checkpointer.restore(path, args=wanted))
                    ocp.multihost.sync_global_processes("restored")
                took.setdefault(f"save{late}", []).append(save.seconds)
                took.setdefault(f"restore{late}", []).append(restore.seconds)
                context.verify(restored)
                pytree.free(restored)
        if jax.process_index() != given.slow_worker:
            for name in ("save", "restore"):
                lost = statistics.median(took[name + LATE]) - statistics.median(took[name])
                context.value(name + LATE, "held_up_s", lost, "s")

    def _meet(self, late: str) -> None:
        """Lets all workers begin together, or all but one."""
        ocp.multihost.sync_global_processes("begin")
        if late and jax.process_index() == self.options.slow_worker:
            time.sleep(self.options.late_s)
