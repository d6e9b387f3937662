"""Saves steps with CheckpointManager and restores the latest: a tree, some JSON and a random state."""

from __future__ import annotations

import contextlib
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp

from runtime import pytree
from runtime.benchmarks.benchmark import Benchmark, Context
from runtime.contract.options import CheckpointManagerOptions
from runtime.steps import NotResumed, Steps
from runtime.verify import NotEqual

JSON_ITEM = {"a": 1, "b": "test"}
"""The small item that goes with the tree."""


class CheckpointManager(Benchmark):
    """Operations: `save` and `wait_until_finished` for each step that is saved, `restore` of the latest.

    Orbax's benchmark puts the step into the name (`save_3`); here the i-th saved step is occurrence i of
    `save`, so that steps of one operation are samples of one series. A step that the manager skips
    (`save_interval_steps`) is `save_skipped`: it moves nothing, and is no fast save. After a disruption the newest
    complete step is restored first, as `restore_after_restart`.
    """

    options_class = CheckpointManagerOptions
    options: CheckpointManagerOptions

    def run(self, context: Context) -> None:
        random_state = np.random.RandomState(context.point.checkpoint.random_seed).get_state()
        with contextlib.closing(self._manager(context)) as manager:
            first = 0
            if context.restarted and context.steps is not None:
                first = _resume(context, context.steps, manager, random_state) + 1
            last = self._train(context, manager, first, random_state)
            if last is None and first:
                last = first - 1  # none of the steps that were left is one to save
            if last is None or manager.latest_step() != last:
                raise RuntimeError(
                    f"step {last} was saved last and the manager finds {manager.latest_step()}"
                )
            wanted = _wanted(context)
            with context.measure("restore", payload_bytes=pytree.held_bytes(wanted["pytree"].item)):
                restored = manager.restore(last, args=wanted)
                jax.block_until_ready(restored["pytree"])
        if context.steps is not None:
            context.steps.verify(last, restored["pytree"])
        else:
            context.verify(restored["pytree"])
        _check_rest(restored, random_state)
        pytree.free(restored["pytree"])

    def _train(
        self, context: Context, manager: ocp.CheckpointManager, first: int, random_state: Any
    ) -> int | None:
        """Does the steps from `first` on; returns the last that was saved, or None."""
        last = None
        for step in range(first, self.options.train_steps):
            tree = context.begin_step(step)
            items = ocp.args.Composite(
                pytree=ocp.args.StandardSave(tree),
                json_item=ocp.args.JsonSave(JSON_ITEM),
                np_random_key=ocp.args.NumpyRandomKeySave(random_state),
            )
            if not manager.should_save(step):
                with context.measure("save_skipped"):
                    manager.save(step, args=items)
                continue
            saved = pytree.saved_bytes(tree)
            with context.measure("save", payload_bytes=saved, in_background=True) as save:
                manager.save(step, args=items)
            with context.measure("wait_until_finished") as wait:
                manager.wait_until_finished()
            context.recorder.throughput(saved, save, wait)
            context.saved_step(step)
            last = step
        return last

    def _manager(self, context: Context) -> ocp.CheckpointManager:
        if ocp.multihost.is_pathways_backend():
            ocp.pathways.register_type_handlers(
                checkpointing_impl=ocp.pathways.CheckpointingImpl.from_options(use_remote_python=True)
            )
        options = ocp.CheckpointManagerOptions(
            save_interval_steps=self.options.save_interval_steps, max_to_keep=self.options.max_to_keep
        )
        return ocp.CheckpointManager(context.path, options=options)


def _resume(context: Context, steps: Steps, manager: ocp.CheckpointManager, random_state: Any) -> int:
    """Restores the newest complete step, proves that it is what that step saved, and returns it."""
    newest = manager.latest_step()
    if newest is None:
        raise NotResumed("it was killed before its first checkpoint was complete: disrupt it later")
    wanted = _wanted(context)
    payload = pytree.held_bytes(wanted["pytree"].item)
    with context.measure("restore_after_restart", payload_bytes=payload) as restore:
        restored = manager.restore(newest, args=wanted)
        jax.block_until_ready(restored["pytree"])
    steps.resumed(newest, restored["pytree"], restore)
    _check_rest(restored, random_state)
    pytree.free(restored["pytree"])
    return int(newest)


def _wanted(context: Context) -> ocp.args.Composite:
    target = pytree.abstract(context.tree) if context.steps is None else context.steps.abstract
    return ocp.args.Composite(
        pytree=ocp.args.StandardRestore(target),
        json_item=ocp.args.JsonRestore(),
        np_random_key=ocp.args.NumpyRandomKeyRestore(),
    )


def _check_rest(restored: Any, random_state: Any) -> None:
    if restored["json_item"] != JSON_ITEM:
        raise NotEqual(f"the JSON item came back as {restored['json_item']}")
    if not _same_state(random_state, restored["np_random_key"]):
        raise NotEqual("the state of numpy's random numbers came back changed")


def _same_state(one: Any, other: Any) -> bool:
    return len(one) == len(other) and all(
        np.array_equal(mine, theirs) for mine, theirs in zip(one, other, strict=True)
    )
