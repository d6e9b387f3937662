"""Saves with a manager that gives old steps up and with one that keeps all: what does deleting add to a save?"""

from __future__ import annotations

import contextlib
import statistics

import jax
import orbax.checkpoint as ocp

from runtime import pytree
from runtime.benchmarks.benchmark import Benchmark, Context
from runtime.benchmarks.deleter import NotDeleted
from runtime.contract.options_strains import GarbageCollectionOptions

KEEPING, DELETING = "", "_and_delete"
"""What is added to the names of operations of the two managers."""


class GarbageCollection(Benchmark):
    """Operations: `save` and `wait_until_finished` of the manager that keeps all; `save_and_delete` and
    `wait_until_finished_and_delete` of the one that does not; `close`, which waits for what is deleted in the
    background; `restore` of the last step. `deletion_s` is the difference of the medians of both parts together.
    """

    options_class = GarbageCollectionOptions
    options: GarbageCollectionOptions

    def run(self, context: Context) -> None:
        given = self.options
        took: dict[str, list[float]] = {KEEPING: [], DELETING: []}
        last = given.max_to_keep + given.steps - 1
        with contextlib.closing(self._manager(context, "keeping", None)) as keeping:
            deleting = self._manager(context, "deleting", given.max_to_keep)
            for step in range(last + 1):
                # Until there are too many, the second manager deletes nothing either: these saves are not measured.
                measured = step >= given.max_to_keep
                for manager, kind in ((keeping, KEEPING), (deleting, DELETING)):
                    if measured:
                        took[kind].append(_save(context, manager, step, kind))
                    else:
                        manager.save(step, args=ocp.args.StandardSave(context.tree))
                        manager.wait_until_finished()
            with context.measure("close"):
                deleting.close()
            _expect(keeping, list(range(last + 1)))
        difference = statistics.median(took[DELETING]) - statistics.median(took[KEEPING])
        context.value(f"save{DELETING}", "deletion_s", difference, "s")
        with contextlib.closing(self._manager(context, "deleting", given.max_to_keep)) as again:
            _expect(again, list(range(last + 1 - given.max_to_keep, last + 1)))
            target = pytree.abstract(context.tree)
            with context.measure("restore", payload_bytes=pytree.held_bytes(target)):
                restored = again.restore(last, args=ocp.args.StandardRestore(target))
                jax.block_until_ready(restored)
        context.verify(restored)
        pytree.free(restored)

    def _manager(self, context: Context, name: str, keep: int | None) -> ocp.CheckpointManager:
        given = self.options
        options = ocp.CheckpointManagerOptions(
            max_to_keep=keep,
            num_deletion_threads=given.num_deletion_threads,
            enable_background_delete=given.enable_background_delete and keep is not None,
        )
        return ocp.CheckpointManager(context.path / name, options=options)


def _save(context: Context, manager: ocp.CheckpointManager, step: int, kind: str) -> float:
    size = pytree.saved_bytes(context.tree)
    with context.measure(f"save{kind}", payload_bytes=size, in_background=True) as save:
        manager.save(step, args=ocp.args.StandardSave(context.tree))
    with context.measure(f"wait_until_finished{kind}") as wait:
        manager.wait_until_finished()
    context.recorder.throughput(size, save, wait)
    return save.seconds + wait.seconds


def _expect(manager: ocp.CheckpointManager, steps: list[int]) -> None:
    manager.reload()  # what is there, not what the manager remembers
    there = list(manager.all_steps())
    if there != steps:
        raise NotDeleted(f"steps {steps} are to be left, and there are {there}")
