"""Saves steps with a CheckpointManager and deletes each when the next is there: what giving up checkpoints costs."""

from __future__ import annotations

import contextlib

import jax
import orbax.checkpoint as ocp

from runtime import folders, pytree
from runtime.benchmarks.benchmark import Benchmark, Context
from runtime.benchmarks.checkpoint_manager import JSON_ITEM
from runtime.contract.errors import WorkloadFailed
from runtime.contract.options_managers import DeleterOptions
from runtime.verify import NotEqual


class NotDeleted(WorkloadFailed):
    """A checkpoint is there that was deleted, or is gone and was not."""


class Deleter(Benchmark):
    """Operations: `save` and `wait_until_finished` of each step that is saved, `delete` of the one before it, `restore`
    of the last. `deleted_files` and `deleted_bytes` stand beside the time of `delete`.

    Orbax's benchmark of this name puts step and threads into the names of operations.
    """

    options_class = DeleterOptions
    options: DeleterOptions

    def run(self, context: Context) -> None:
        options = ocp.CheckpointManagerOptions(
            save_interval_steps=self.options.save_interval_steps,
            max_to_keep=self.options.max_to_keep,
            num_deletion_threads=self.options.num_deletion_threads,
        )
        target, held = pytree.abstract(context.tree), pytree.held_bytes(context.tree)
        with contextlib.closing(ocp.CheckpointManager(context.path, options=options)) as manager:
            last = self._train(context, manager)
            wanted = ocp.args.Composite(
                pytree=ocp.args.StandardRestore(target), json_item=ocp.args.JsonRestore()
            )
            pytree.free(context.tree)
            with context.measure("restore", payload_bytes=held):
                restored = manager.restore(last, args=wanted)
                jax.block_until_ready(restored["pytree"])
        context.verify(restored["pytree"])
        if restored["json_item"] != JSON_ITEM:
            raise NotEqual(f"the JSON item came back as {restored['json_item']}")
        pytree.free(restored["pytree"])

    def _train(self, context: Context, manager: ocp.CheckpointManager) -> int:
        """Saves and deletes; returns the step that is left."""
        left = None
        size = pytree.saved_bytes(context.tree)
        items = ocp.args.Composite(
            pytree=ocp.args.StandardSave(context.tree), json_item=ocp.args.JsonSave(JSON_ITEM)
        )
        for step in range(self.options.train_steps):
            if not manager.should_save(step):
                continue
            with context.measure("save", payload_bytes=size, in_background=True) as save:
                manager.save(step, args=items)
            with context.measure("wait_until_finished") as wait:
                manager.wait_until_finished()
            context.recorder.throughput(size, save, wait)
            if left is not None:
                _delete(context, manager, left)
            left = step
            _expect(manager, left)
        assert left is not None, "step 0 is always saved"
        return left


def _delete(context: Context, manager: ocp.CheckpointManager, step: int) -> None:
    files, size = folders.contents(context.path / str(step)) if jax.process_index() == 0 else (0, 0)
    with context.measure("delete"):
        manager.delete(step)
    if jax.process_index() == 0:  # it alone deletes
        context.value("delete", "deleted_files", files, "count")
        context.value("delete", "deleted_bytes", size, "bytes")


def _expect(manager: ocp.CheckpointManager, step: int) -> None:
    manager.reload()  # what is there, not what the manager remembers
    there = list(manager.all_steps())
    if there != [step]:
        raise NotDeleted(f"only step {step} is to be left, and there are {there}")
