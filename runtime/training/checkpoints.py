"""Checkpoints of training: saved beside steps that go on, with checksums of all arrays, which prove restores."""

from __future__ import annotations

import contextlib
import threading
import time
from contextlib import AbstractContextManager
from typing import Any, Protocol

import jax
import orbax.checkpoint as ocp
from etils import epath

from runtime import pytree
from runtime.contract.options_training import TrainingOptions
from runtime.measure import Block
from runtime.training.model import State, Trainer
from runtime.verify import NotEqual


class Measure(Protocol):
    """Times a block: see runtime.measure.Recorder.measure."""

    def __call__(
        self, operation: str, *, payload_bytes: int | None = None, in_background: bool = False
    ) -> AbstractContextManager[Block]: ...


class Saving:
    """A save that goes on in the background, and a thread that waits for its end: Orbax only says whether every worker
    knows of the end, which takes a word of each of them.
    """

    def __init__(self, manager: ocp.CheckpointManager, step: int, block: Block) -> None:
        """`block`: in which it began, and which is over."""
        self.step, self._block, self._began = step, block, time.perf_counter()
        self._took = 0.0
        self._waits = threading.Thread(target=self._wait, args=[manager], daemon=True)
        self._waits.start()

    @property
    def goes_on(self) -> bool:
        """Whether its checkpoint is not complete yet."""
        return self._waits.is_alive()

    def seconds(self) -> float:
        """Returns how long it took, whenever training looks. To be called when it is over."""
        self._waits.join()
        return self._block.seconds + self._took

    def _wait(self, manager: ocp.CheckpointManager) -> None:
        with contextlib.suppress(Exception):  # raised again where training itself waits
            manager.wait_until_finished()
        self._took = time.perf_counter() - self._began


def opened(given: TrainingOptions, place: epath.Path) -> ocp.CheckpointManager:
    """Returns what saves and restores the checkpoints in a folder."""
    options = ocp.CheckpointManagerOptions(
        save_interval_steps=given.save_interval_steps,
        max_to_keep=given.max_to_keep,
        enable_async_checkpointing=given.async_enabled,
    )
    return ocp.CheckpointManager(place, options=options)


def save(
    measure: Measure, trainer: Trainer, manager: ocp.CheckpointManager, step: int, state: State
) -> Saving:
    """Begins to save a step, which is measured as `save`; returns what goes on of it."""
    items = ocp.args.Composite(
        state=ocp.args.StandardSave(state),
        checksum=ocp.args.JsonSave({"step": step, **trainer.checksum(state)}),
    )
    with measure("save", payload_bytes=pytree.saved_bytes(state), in_background=True) as block:
        manager.save(step, args=items)
    return Saving(manager, step, block)


def restore(manager: ocp.CheckpointManager, step: int, trainer: Trainer) -> Any:
    """Returns the state of a step, and the checksums that were saved with it."""
    wanted = ocp.args.Composite(
        state=ocp.args.StandardRestore(trainer.abstract), checksum=ocp.args.JsonRestore()
    )
    restored = manager.restore(step, args=wanted)
    jax.block_until_ready(restored["state"])
    return restored


def check(trainer: Trainer, step: int, restored: Any) -> None:
    """Proves that what was restored is what that step saved. Raises NotEqual."""
    saved, there = restored["checksum"], {"step": step, **trainer.checksum(restored["state"])}
    wrong = next((name for name, number in there.items() if saved.get(name) != number), None)
    if wrong is not None:
        raise NotEqual(f"restored leaf {wrong} is not what step {step} saved")
