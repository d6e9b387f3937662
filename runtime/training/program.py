"""A training program by itself, without suite and measurement: it trains, saves, goes on, and tells a line of each."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping

import jax
import numpy as np
import orbax.checkpoint as ocp
from etils import epath

from runtime.benchmarks.training import Saving, check, restore
from runtime.contract.counting import counted
from runtime.contract.errors import BadInput
from runtime.contract.options_training import TransformerOptions
from runtime.measure import Block, Operation
from runtime.training.model import Programs, State, Trainer, programs
from runtime.training.transformer import MODEL, Transformer

Tell = Callable[[str], None]


def train(given: TransformerOptions, parts: int, seed: int, tell: Tell) -> None:
    """Trains until the last step. `parts`: how many devices share a layer; the others share the data.

    Its lines: `trains until step N on …` first, `step N: loss X`, `saved step N in S s` once it is complete,
    `restored step N in S s`. Raises BadInput, or NotEqual where a checkpoint does not hold what its step saved.
    """
    assert given.directory is not None
    trainer = Trainer(_programs(given, parts), seed)
    options = ocp.CheckpointManagerOptions(
        save_interval_steps=given.save_interval_steps,
        max_to_keep=given.max_to_keep,
        enable_async_checkpointing=given.async_enabled,
    )
    with contextlib.closing(ocp.CheckpointManager(epath.Path(given.directory), options=options)) as manager:
        tell(f"trains until step {given.train_steps - 1} on {counted(jax.device_count(), 'device')}")
        state, first = _begin(given, trainer, manager, tell)
        saving: Saving | None = None
        for step in range(first, given.train_steps):
            began = time.perf_counter()
            state, loss = trainer.step(state)
            jax.block_until_ready(state)
            tell(f"step {step}: loss {float(loss)!r}")
            time.sleep(max(0.0, given.step_s - (time.perf_counter() - began)))
            saves = manager.should_save(step)
            if saving is not None and (saves or not saving.goes_on):
                _saved(manager, saving, tell)
                saving = None
            if saves:
                saving = _save(trainer, manager, state, step)
        if saving is not None:
            _saved(manager, saving, tell)
        newest = manager.latest_step()
        for _ in range(given.restores if newest is not None else 0):
            _restored(trainer, manager, int(newest), tell)


def join(environ: Mapping[str, str] = os.environ) -> None:
    """Meets the other processes, where the environment says that there are any: JAX's variables, or a TPU's own."""
    if address := environ.get("JAX_COORDINATOR_ADDRESS"):
        number, of = (environ.get(name, "") for name in ("JAX_PROCESS_ID", "JAX_NUM_PROCESSES"))
        if not (number.isdecimal() and of.isdecimal() and int(number) < int(of)):
            raise BadInput(
                f"JAX_PROCESS_ID {number!r} of JAX_NUM_PROCESSES {of!r} is none",
                fix="set both beside JAX_COORDINATOR_ADDRESS",
            )
        jax.distributed.initialize(address, int(of), int(number), cluster_detection_method="deactivate")
    elif "," in environ.get("TPU_WORKER_HOSTNAMES", "") or environ.get("MEGASCALE_NUM_SLICES", "1") != "1":
        jax.distributed.initialize()


def _programs(given: TransformerOptions, parts: int) -> Programs:
    devices = np.array(jax.devices())
    if devices.size % parts:
        raise BadInput(
            f"{counted(devices.size, 'device')} cannot be shared evenly by --model-parallel {parts}"
        )
    mesh = jax.sharding.Mesh(devices.reshape(-1, parts), ("data", MODEL))
    model = Transformer(given.layers, given.width, given.heads, given.vocabulary, given.sequence, given.batch)
    try:
        return programs(model, mesh)
    except ValueError as error:
        raise BadInput(str(error)) from error


def _begin(
    given: TransformerOptions, trainer: Trainer, manager: ocp.CheckpointManager, tell: Tell
) -> tuple[State, int]:
    """Returns the state to go on with and the step that comes next."""
    newest = manager.latest_step()
    if newest is not None:
        return _restored(trainer, manager, int(newest), tell), int(newest) + 1
    if given.resume_from is None:
        return trainer.begin(), 0
    place, _, step = given.resume_from.rstrip("/").rpartition("/")
    options = ocp.CheckpointManagerOptions(read_only=True)
    with contextlib.closing(ocp.CheckpointManager(epath.Path(place), options=options)) as other:
        if int(step) not in other.all_steps():
            raise BadInput(f"--resume-from: no complete checkpoint of step {step} is in {place}")
        return _restored(trainer, other, int(step), tell), int(step) + 1


def _restored(trainer: Trainer, manager: ocp.CheckpointManager, step: int, tell: Tell) -> State:
    began = time.perf_counter()
    restored = restore(manager, step, trainer)
    took = time.perf_counter() - began
    check(trainer, step, restored)
    tell(f"restored step {step} in {took:.6f} s")
    state: State = restored["state"]
    return state


def _save(trainer: Trainer, manager: ocp.CheckpointManager, state: State, step: int) -> Saving:
    items = ocp.args.Composite(
        state=ocp.args.StandardSave(state),
        checksum=ocp.args.JsonSave({"step": step, **trainer.checksum(state)}),
    )
    began = time.perf_counter()
    manager.save(step, args=items)
    return Saving(manager, step, Block(Operation("save"), time.perf_counter() - began))


def _saved(manager: ocp.CheckpointManager, saving: Saving, tell: Tell) -> None:
    manager.wait_until_finished()  # raises what went wrong in the background
    tell(f"saved step {saving.step} in {saving.seconds():.6f} s")
