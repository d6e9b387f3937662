"""Trains with and without a save going on, in turn: how much slower are the steps beside a save?"""

from __future__ import annotations

import contextlib
import statistics
import time

import jax
import orbax.checkpoint as ocp

from runtime import pytree
from runtime.benchmarks.benchmark import Benchmark, Context
from runtime.benchmarks.training import STEP, STEP_MEANWHILE
from runtime.contract.errors import WorkloadFailed
from runtime.contract.options_strains import InterferenceOptions
from runtime.training.checkpoints import Saving, check, restore, save
from runtime.training.layers import Layers
from runtime.training.model import State, Trainer, programs


class NothingMeanwhile(WorkloadFailed):
    """No step began beside a save."""


class Interference(Benchmark):
    """Operations: `train_step`, `train_step_meanwhile`, `save`, `wait_until_finished`, `restore`. `slowdown`, beside
    `train_step_meanwhile`, is its median over that of `train_step`.

    Steps alone and steps beside saves take turns, so that what drifts meets both.
    """

    options_class = InterferenceOptions
    options: InterferenceOptions

    def run(self, context: Context) -> None:
        given = self.options
        seed = context.point.checkpoint.random_seed + context.repeat
        trainer = Trainer(programs(Layers(given.layers, given.width, given.batch), context.mesh), seed)
        took: dict[str, list[float]] = {STEP: [], STEP_MEANWHILE: []}
        options = ocp.CheckpointManagerOptions(max_to_keep=1)
        with contextlib.closing(ocp.CheckpointManager(context.path, options=options)) as manager:
            state = self._steps(context, trainer, trainer.begin(), took, None)
            took[STEP].clear()  # the first compile
            for number in range(given.rounds):
                state = self._steps(context, trainer, state, took, None)
                saving = save(context.measure, trainer, manager, number, state)
                state = self._steps(context, trainer, state, took, saving)
                with context.measure("wait_until_finished"):
                    manager.wait_until_finished()
            pytree.free(state)
            with context.measure("restore", payload_bytes=pytree.held_bytes(trainer.abstract)):
                restored = restore(manager, given.rounds - 1, trainer)
        check(trainer, given.rounds - 1, restored)
        pytree.free(restored["state"])
        if not took[STEP_MEANWHILE]:
            raise NothingMeanwhile("no step began while a save went on: train a larger model (layers, width)")
        slowdown = statistics.median(took[STEP_MEANWHILE]) / statistics.median(took[STEP])
        context.value(STEP_MEANWHILE, "slowdown", slowdown, "1")

    def _steps(
        self,
        context: Context,
        trainer: Trainer,
        state: State,
        took: dict[str, list[float]],
        saving: Saving | None,
    ) -> State:
        """Does so many steps; those that begin after the save has ended are no steps alone, and not recorded."""
        for _ in range(self.options.steps):
            goes_on = saving is not None and saving.goes_on
            began = time.perf_counter()
            state, _ = trainer.step(state)
            jax.block_until_ready(state)
            seconds = time.perf_counter() - began
            if saving is None or goes_on:
                name = STEP_MEANWHILE if goes_on else STEP
                took[name].append(seconds)
                context.recorder.took(name, seconds)
            time.sleep(max(0.0, self.options.step_s - seconds))
        return state
