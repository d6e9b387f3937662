"""Trains a small model and saves its state every so many steps; stopped at any moment, it goes on from the newest."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from typing import Any, ClassVar

import jax
import orbax.checkpoint as ocp
from etils import epath

from runtime import pytree
from runtime.benchmarks.benchmark import Benchmark, Context
from runtime.contract import metrics
from runtime.contract.options_training import TrainingOptions
from runtime.measure import Block
from runtime.steps import NotResumed, Steps
from runtime.training.layers import Layers
from runtime.training.model import Model, State, Trainer, programs
from runtime.verify import NotEqual

STEP, STEP_MEANWHILE = "train_step", "train_step_meanwhile"
"""The operation that is a step; its name where a save goes on beside it."""


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


class Training(Benchmark):
    """Operations: `train_step` for each step, `train_step_meanwhile` for one beside which a save goes on; `save`, which
    keeps training from going on, and `wait_until_finished` where it waits for the rest; `restore` of the newest at the
    end. Started again after it was stopped, it restores the newest first, as `restore_after_restart`.
    """

    options_class = TrainingOptions
    options: TrainingOptions
    resumes: ClassVar[bool] = True

    def run(self, context: Context) -> None:
        steps = context.steps
        assert steps is not None
        given = self.options
        seed = context.point.checkpoint.random_seed + context.repeat
        trainer = Trainer(programs(self.model(), context.mesh), seed)
        with contextlib.closing(self._manager(context)) as manager:
            state, first = self._begin(context, steps, trainer, manager)
            saving = None
            for step in range(first, given.train_steps):
                state = self._step(context, steps, trainer, state, step, saving)
                if saving is not None and not saving.goes_on:
                    _saved(context, steps, manager, saving)
                    saving = None
                if manager.should_save(step):
                    if saving is not None:
                        _wait(context, steps, manager, saving)
                    saving = self._save(context, steps, trainer, manager, state, step)
            if saving is not None:
                _wait(context, steps, manager, saving)
            print(f"after step {given.train_steps - 1}: checksum {_one(trainer.checksum(state))}", flush=True)
            pytree.free(state)
            newest = manager.latest_step()
            if newest is None:
                raise RuntimeError("nothing was saved")
            for _ in range(given.restores):
                size = pytree.held_bytes(trainer.abstract)
                with context.measure("restore", payload_bytes=size) as block:
                    restored = restore(manager, newest, trainer)
                check(trainer, newest, restored)
                pytree.free(restored["state"])
                _tell_restored(newest, block)

    def model(self) -> Model:
        """Returns what is trained."""
        return Layers(self.options.layers, self.options.width, self.options.batch)

    def _step(
        self,
        context: Context,
        steps: Steps,
        trainer: Trainer,
        state: State,
        step: int,
        saving: Saving | None,
    ) -> State:
        steps.begins(step)
        began = time.perf_counter()
        state, loss = trainer.step(state)
        jax.block_until_ready(state)
        operation = STEP if saving is None else STEP_MEANWHILE
        context.recorder.took(operation, time.perf_counter() - began)
        if not math.isfinite(told := float(loss)):
            raise RuntimeError(f"the loss of step {step} is {told}")
        context.value(operation, metrics.LOSS, told, "1")
        context.value(operation, metrics.STEP, step, "1")
        print(f"step {step}: loss {told!r}", flush=True)  # what is killed leaves its log, not its samples
        time.sleep(max(0.0, self.options.step_s - (time.perf_counter() - began)))
        steps.trained(step)
        return state

    def _save(
        self,
        context: Context,
        steps: Steps,
        trainer: Trainer,
        manager: ocp.CheckpointManager,
        state: State,
        step: int,
    ) -> Saving | None:
        items = ocp.args.Composite(
            state=ocp.args.StandardSave(state),
            checksum=ocp.args.JsonSave({"step": step, **trainer.checksum(state)}),
        )
        steps.saving(step)
        payload = pytree.saved_bytes(state)
        with context.measure("save", payload_bytes=payload, in_background=True) as block:
            manager.save(step, args=items)
        saving = Saving(manager, step, block)
        if self.options.async_enabled:
            return saving
        _wait(context, steps, manager, saving)
        return None

    def _manager(self, context: Context) -> ocp.CheckpointManager:
        given = self.options
        options = ocp.CheckpointManagerOptions(
            save_interval_steps=given.save_interval_steps,
            max_to_keep=given.max_to_keep,
            enable_async_checkpointing=given.async_enabled,
        )
        return ocp.CheckpointManager(self.place(context), options=options)

    def place(self, context: Context) -> epath.Path:
        given = self.options.directory
        return context.path if given is None else epath.Path(given) / f"repeat_{context.repeat}"

    def _begin(
        self, context: Context, steps: Steps, trainer: Trainer, manager: ocp.CheckpointManager
    ) -> tuple[State, int]:
        """Returns the state to go on with and the step that comes next."""
        restart, given = steps.restart, self.options.resume_from
        newest = manager.latest_step()
        if restart is not None and newest is None:
            if restart.saved is not None:
                raise NotResumed(f"the checkpoint of step {restart.saved} was complete, and none is there")
            print("it was stopped before its first checkpoint was complete: it begins anew", flush=True)
        if newest is not None:
            state, block = _restored(context, trainer, manager, newest)
            if restart is not None:
                steps.went_on(newest, block)
            elif newest + 1 >= self.options.train_steps:
                print(
                    f"all {self.options.train_steps} steps were done before: nothing is left to train",
                    flush=True,
                )
            return state, int(newest) + 1
        if given is None:
            return trainer.begin(), 0
        place, _, step = given.rstrip("/").rpartition("/")
        options = ocp.CheckpointManagerOptions(read_only=True)
        with contextlib.closing(ocp.CheckpointManager(epath.Path(place), options=options)) as other:
            if int(step) not in other.all_steps():
                raise NotResumed(f"resume_from: no complete checkpoint of step {step} is in {place}")
            state, _ = _restored(context, trainer, other, int(step))
        return state, int(step) + 1


def _restored(
    context: Context, trainer: Trainer, manager: ocp.CheckpointManager, step: int
) -> tuple[State, Block]:
    """Returns the state of a step to go on with, and how long it took."""
    payload = pytree.held_bytes(trainer.abstract)
    with context.measure("restore_after_restart", payload_bytes=payload) as block:
        restored = restore(manager, step, trainer)
    context.value("restore_after_restart", "resumed_from_step", step, "1")
    check(trainer, step, restored)
    _tell_restored(step, block)
    return restored["state"], block


def _tell_restored(step: int, block: Block) -> None:
    print(f"restored step {step} in {block.seconds:.6f} s", flush=True)


def restore(manager: ocp.CheckpointManager, step: int, trainer: Trainer) -> Any:
    wanted = ocp.args.Composite(
        state=ocp.args.StandardRestore(trainer.abstract), checksum=ocp.args.JsonRestore()
    )
    restored = manager.restore(step, args=wanted)
    jax.block_until_ready(restored["state"])
    return restored


def check(trainer: Trainer, step: int, restored: Any) -> None:
    """Proves that what was restored is what that step saved."""
    saved, there = restored["checksum"], {"step": step, **trainer.checksum(restored["state"])}
    wrong = next((name for name, number in there.items() if saved.get(name) != number), None)
    if wrong is not None:
        raise NotEqual(f"restored leaf {wrong} is not what step {step} saved")


def _wait(context: Context, steps: Steps, manager: ocp.CheckpointManager, saving: Saving) -> None:
    with context.measure("wait_until_finished"):
        manager.wait_until_finished()
    _saved(context, steps, manager, saving)


def _saved(context: Context, steps: Steps, manager: ocp.CheckpointManager, saving: Saving) -> None:
    manager.wait_until_finished()  # raises what went wrong in the background
    context.value("save", "complete_after_s", saving.seconds(), "s")
    print(f"saved step {saving.step} in {saving.seconds():.6f} s", flush=True)
    steps.saved(saving.step)


def _one(sums: dict[str, int]) -> str:
    """Returns a checksum of all arrays together, for people."""
    total = 0
    for number in sums.values():
        total = (total * 0x01000193 + number) & 0xFFFFFFFF
    return f"{total:08x}"
