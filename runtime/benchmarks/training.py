"""Trains a small model and saves its state every so many steps; stopped at any moment, it goes on from the newest."""

from __future__ import annotations

import contextlib
from contextlib import AbstractContextManager
from typing import ClassVar

from etils import epath

from runtime.benchmarks.benchmark import Benchmark, Context
from runtime.contract import metrics
from runtime.contract.options_training import TrainingOptions
from runtime.measure import Block
from runtime.steps import NotResumed, Steps
from runtime.training.checkpoints import opened
from runtime.training.layers import Layers
from runtime.training.loop import Loop
from runtime.training.model import Model, Trainer, programs

STEP, STEP_MEANWHILE = "train_step", "train_step_meanwhile"
"""The operation that is a step; its name where a save goes on beside it."""


class Training(Benchmark):
    """Operations: `train_step` for each step, `train_step_meanwhile` for one beside which a save goes on; `save`, which
    keeps training from going on, and `wait_until_finished` where it waits for the rest; `restore` of the newest at the
    end. Started again after it was stopped, it restores the newest first, as `restore_after_restart`.
    """

    options_class = TrainingOptions
    options: TrainingOptions
    resumes: ClassVar[bool] = True

    def run(self, context: Context) -> None:
        assert context.steps is not None
        seed = context.point.checkpoint.random_seed + context.repeat
        trainer = Trainer(programs(self.model(), context.mesh), seed)
        with contextlib.closing(opened(self.options, self.place(context))) as manager:
            Loop(self.options, trainer, manager, _Measured(context, context.steps), _tell).run()

    def model(self) -> Model:
        """Returns what is trained."""
        return Layers(self.options.layers, self.options.width, self.options.batch)

    def place(self, context: Context) -> epath.Path:
        given = self.options.directory
        return context.path if given is None else epath.Path(given) / f"repeat_{context.repeat}"


class _Measured:
    """Writes down how training goes as samples of the suite, and tells the supervisors of each step."""

    def __init__(self, context: Context, steps: Steps) -> None:
        self._context, self._steps = context, steps

    def measure(
        self, operation: str, *, payload_bytes: int | None = None, in_background: bool = False
    ) -> AbstractContextManager[Block]:
        return self._context.measure(operation, payload_bytes=payload_bytes, in_background=in_background)

    def found(self, newest: int | None) -> None:
        restart = self._steps.restart
        if restart is None or newest is not None:
            return
        if restart.saved is not None:
            raise NotResumed(f"the checkpoint of step {restart.saved} was complete, and none is there")
        _tell("it was stopped before its first checkpoint was complete: it begins anew")

    def went_on(self, step: int, took: Block, *, own: bool) -> None:
        self._context.value("restore_after_restart", "resumed_from_step", step, "1")
        if own and self._steps.restart is not None:
            self._steps.went_on(step, took)

    def begins(self, step: int) -> None:
        self._steps.begins(step)

    def stepped(self, step: int, loss: float, seconds: float, *, beside_save: bool) -> None:
        operation = STEP_MEANWHILE if beside_save else STEP
        self._context.recorder.took(operation, seconds)
        self._context.value(operation, metrics.LOSS, loss, "1")
        self._context.value(operation, metrics.STEP, step, "1")

    def trained(self, step: int) -> None:
        self._steps.trained(step)

    def saving(self, step: int) -> None:
        self._steps.saving(step)

    def saved(self, step: int, seconds: float) -> None:
        self._context.value("save", "complete_after_s", seconds, "s")
        self._steps.saved(step)


def _tell(line: str) -> None:
    print(line, flush=True)
