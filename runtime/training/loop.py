"""Training from where it goes on to its last step: a line for each step, save and restore, and whoever measures hears
of them.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import jax
import orbax.checkpoint as ocp
from etils import epath

from runtime import pytree
from runtime.contract.errors import WorkloadFailed
from runtime.contract.options_training import TrainingOptions
from runtime.measure import Block
from runtime.steps import NotResumed
from runtime.training.checkpoints import Saving, check, restore, save
from runtime.training.model import State, Trainer


class NotFinite(WorkloadFailed):
    """The loss is no number any more: what is trained on from there, or saved, proves nothing."""


class Listener(Protocol):
    """Who measures training, and is told how it goes."""

    def measure(
        self, operation: str, *, payload_bytes: int | None = None, in_background: bool = False
    ) -> AbstractContextManager[Block]:
        """Times a block."""

    def found(self, newest: int | None) -> None:
        """That step is the newest complete one in its own place. May refuse it."""

    def went_on(self, step: int, took: Block, *, own: bool) -> None:
        """It goes on from that step; `own`: of its own place, else it was given to begin with."""

    def begins(self, step: int) -> None:
        """A step begins."""

    def stepped(self, step: int, loss: float, seconds: float, *, beside_save: bool) -> None:
        """A step was computed; `beside_save`: a save went on when it began."""

    def trained(self, step: int) -> None:
        """A step is over, with the time that it has to take at least."""

    def saving(self, step: int) -> None:
        """A step begins to be saved."""

    def saved(self, step: int, seconds: float) -> None:
        """The checkpoint of a step is complete, so long after its save began."""


@dataclass(frozen=True)
class Loop:
    """One passage of training, with its checkpoints in the place of `manager`.

    Its lines: `step N: loss X`; `saved step N in S s` once it is complete; `restored step N in S s`; at the end
    `after step N: checksum C`. What is killed leaves its log, and no samples.
    """

    given: TrainingOptions
    trainer: Trainer
    manager: ocp.CheckpointManager
    listener: Listener
    tell: Callable[[str], None]

    def run(self) -> None:
        """Trains to the end, and restores the newest checkpoint as often as is asked.

        Raises NotEqual where a checkpoint does not hold what its step saved, NotResumed where none is where one has to
        be, NotFinite.
        """
        state, first = self._begin()
        state = self._train(state, first)
        checksum = _one(self.trainer.checksum(state))
        self.tell(f"after step {self.given.train_steps - 1}: checksum {checksum}")
        pytree.free(state)
        newest = self.manager.latest_step()
        if newest is None:
            raise WorkloadFailed("nothing was saved")
        for _ in range(self.given.restores):
            restored, _ = self._restored("restore", self.manager, int(newest))
            pytree.free(restored)

    def _begin(self) -> tuple[State, int]:
        """Returns the state to go on with and the step that comes next."""
        newest, given = self.manager.latest_step(), self.given.resume_from
        self.listener.found(newest)
        if newest is not None:
            state = self._gone_on(self.manager, int(newest), own=True)
            if newest + 1 >= self.given.train_steps:
                self.tell(
                    f"all {self.given.train_steps} steps were done before: nothing is left to train",
                )
            return state, int(newest) + 1
        if given is None:
            return self.trainer.begin(), 0
        place, _, step = given.rstrip("/").rpartition("/")
        options = ocp.CheckpointManagerOptions(read_only=True)
        with contextlib.closing(ocp.CheckpointManager(epath.Path(place), options=options)) as other:
            if int(step) not in other.all_steps():
                raise NotResumed(f"resume_from: no complete checkpoint of step {step} is in {place}")
            return self._gone_on(other, int(step), own=False), int(step) + 1

    def _gone_on(self, manager: ocp.CheckpointManager, step: int, *, own: bool) -> State:
        state, took = self._restored("restore_after_restart", manager, step)
        self.listener.went_on(step, took, own=own)
        return state

    def _restored(self, operation: str, manager: ocp.CheckpointManager, step: int) -> tuple[State, Block]:
        size = pytree.held_bytes(self.trainer.abstract)
        with self.listener.measure(operation, payload_bytes=size) as block:
            restored = restore(manager, step, self.trainer)
        check(self.trainer, step, restored)
        self.tell(f"restored step {step} in {block.seconds:.6f} s")
        state: State = restored["state"]
        return state, block

    def _train(self, state: State, first: int) -> State:
        saving: Saving | None = None
        for step in range(first, self.given.train_steps):
            state = self._step(state, step, saving is not None)
            if saving is not None and not saving.goes_on:
                self._saved(saving)
                saving = None
            if self.manager.should_save(step):
                if saving is not None:
                    self._wait(saving)
                saving = self._save(state, step)
        if saving is not None:
            self._wait(saving)
        return state

    def _step(self, state: State, step: int, beside_save: bool) -> State:
        self.listener.begins(step)
        began = time.perf_counter()
        state, computed = self.trainer.step(state)
        jax.block_until_ready(state)
        seconds = time.perf_counter() - began
        if not math.isfinite(loss := float(computed)):
            raise NotFinite(f"the loss of step {step} is {loss}")
        self.listener.stepped(step, loss, seconds, beside_save=beside_save)
        self.tell(f"step {step}: loss {loss!r}")
        time.sleep(max(0.0, self.given.step_s - (time.perf_counter() - began)))
        self.listener.trained(step)
        return state

    def _save(self, state: State, step: int) -> Saving | None:
        self.listener.saving(step)
        saving = save(self.listener.measure, self.trainer, self.manager, step, state)
        if self.given.async_enabled:
            return saving
        self._wait(saving)
        return None

    def _wait(self, saving: Saving) -> None:
        with self.listener.measure("wait_until_finished"):
            self.manager.wait_until_finished()
        self._saved(saving)

    def _saved(self, saving: Saving) -> None:
        self.manager.wait_until_finished()  # raises what went wrong in the background
        seconds = saving.seconds()
        self.tell(f"saved step {saving.step} in {seconds:.6f} s")
        self.listener.saved(saving.step, seconds)


def _one(sums: dict[str, int]) -> str:
    """Returns a checksum of all arrays together, for people."""
    total = 0
    for number in sums.values():
        total = (total * 0x01000193 + number) & 0xFFFFFFFF
    return f"{total:08x}"
