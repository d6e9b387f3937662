"""Breaks a save off in the middle: what that costs, and that no half of a checkpoint is left that looks whole."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import orbax.checkpoint as ocp
from orbax.checkpoint import v1

from runtime import distributed, folders, pytree
from runtime.benchmarks.benchmark import Benchmark, Context
from runtime.contract.errors import WorkloadFailed
from runtime.contract.options_managers import CancelOptions, V1CancelOptions

STEP = 1

_WRITES_ON_S = 600.0
"""How long a save that was broken off may go on writing."""


class NotCancelled(WorkloadFailed):
    """Other checkpoints are there than a save that was broken off, or was not, may leave."""


class Cancel(Benchmark):
    """Operations: `async_save_dispatch`; after the delay `cancel_cost`, or `cancel_too_late` where the checkpoint was
    complete by then; `wait_until_finished`; of a checkpoint that is there, `restore_cost`. `cancelled`: none is.
    `still_written_s`: how long files of what was broken off were written, whatever Orbax waits for.

    In Orbax's benchmark of this name a save that is faster than the delay is a failure. Here it has a name of its own:
    no series of `cancel_cost` has a sample of a save of which nothing was left to break off.
    """

    options_class = CancelOptions
    options: CancelOptions

    def run(self, context: Context) -> None:
        with contextlib.closing(ocp.CheckpointManager(context.path)) as manager:
            size, in_time = pytree.saved_bytes(context.tree), False
            with context.measure("async_save_dispatch", payload_bytes=size, in_background=True):
                manager.save(STEP, args=ocp.args.StandardSave(context.tree))
            if self.options.perform_cancellation:
                time.sleep(self.options.cancel_delay_secs)
                in_time = _goes_on(manager)
                with context.measure("cancel_cost" if in_time else "cancel_too_late"):
                    manager._checkpointer.cancel()  # Orbax has no public name for it
            broken_off_at = time.monotonic()
            with context.measure("wait_until_finished"):
                manager.wait_until_finished()
            in_time = bool(
                distributed.largest(int(in_time))
            )  # not before: the save itself may wait for all workers
            manager.reload()  # what is there: the manager still remembers what was broken off
            there = list(manager.all_steps())
            if in_time:
                context.value("cancel_cost", "cancelled", float(STEP not in there), "1")
                last = _await_quiet(context)
                still = 0.0 if last is None else max(0.0, last - broken_off_at)
                context.value("cancel_cost", "still_written_s", still, "s")
            _expect(there, ([], [STEP]) if in_time else ([STEP],))
            if there:
                target = pytree.abstract(context.tree)
                with context.measure("restore_cost", payload_bytes=pytree.held_bytes(target)):
                    restored = manager.restore(STEP, args=ocp.args.StandardRestore(target))
                    jax.block_until_ready(restored)
                context.verify(restored)
                pytree.free(restored)


class V1Cancel(Benchmark):
    """Operations: `async_save_dispatch`; after the delay `cancel_cost` or `cancel_too_late`, as above, and the save of
    the next step, `async_save_dispatch_after_cancel`; `wait_until_finished`; `restore_cost` of what was not broken off.

    Orbax's cancel deletes a checkpoint that is complete already: either way none of that step may be left, and the next
    must be whole. Orbax's benchmark of this name looks at neither.
    """

    options_class = V1CancelOptions
    options: V1CancelOptions

    def run(self, context: Context) -> None:
        last = STEP
        size, held = pytree.saved_bytes(context.tree), pytree.held_bytes(context.tree)
        with contextlib.closing(v1.training.Checkpointer(context.path)) as checkpointer:
            with context.measure("async_save_dispatch", payload_bytes=size, in_background=True):
                begun = checkpointer.save_async(STEP, state=context.tree)
            if self.options.perform_cancellation:
                time.sleep(self.options.cancel_delay_secs)
                in_time = _goes_on(checkpointer._manager)
                with _explained(), context.measure("cancel_cost" if in_time else "cancel_too_late"):
                    checkpointer.cancel(step=STEP)
                last = STEP + 1
                with context.measure(
                    "async_save_dispatch_after_cancel", payload_bytes=size, in_background=True
                ):
                    begun = checkpointer.save_async(last, state=context.tree)
            with context.measure("wait_until_finished"):
                begun.result()
                checkpointer.wait()
            checkpointer.reload()
            _expect([each.step for each in checkpointer.checkpoints], ([last],))
            target = jax.tree.map(v1.arrays.to_shape_dtype_struct, context.tree)
            with context.measure("restore_cost", payload_bytes=held):
                restored: Any = checkpointer.load(last, abstract_state=target)
                jax.block_until_ready(restored)
        context.verify(restored)
        pytree.free(restored)
        if self.options.perform_cancellation:
            _await_quiet(context)


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """Says what it means when Orbax's cancel, which deletes the step, finds files that come while it does."""
    try:
        yield
    except OSError as error:
        if error.errno not in folders.STILL_WRITTEN:
            raise
        raise NotCancelled(
            f"Orbax's cancel deletes the step while its own threads still write it: {error}"
        ) from error


def _await_quiet(context: Context) -> float | None:
    """Lets threads of TensorStore end, which nobody can wait for: they would write beside the next repeat. Returns when
    they were last seen to write."""
    try:
        return folders.await_quiet(context.path, _WRITES_ON_S)
    except TimeoutError as error:
        raise NotCancelled(f"a save was broken off, and {error}") from error


def _goes_on(manager: ocp.CheckpointManager) -> bool:
    """Whether a save goes on, as this worker sees it."""
    return bool(manager.is_saving_in_progress())


def _expect(there: Sequence[int], any_of: Sequence[Sequence[int]]) -> None:
    if list(there) not in [list(one) for one in any_of]:
        may_be = " or ".join(str(list(one)) for one in any_of)
        raise NotCancelled(f"the steps that are there are {list(there)}, and may be {may_be}")
