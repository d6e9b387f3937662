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
from runtime.verify import NotEqual

JSON_ITEM = {"a": 1, "b": "test"}
"""The small item that goes with the tree."""


class CheckpointManager(Benchmark):
    """Operations: `save` and `wait_until_finished` for each step that is saved, `restore` of the latest.

    Orbax's benchmark puts the step into the name (`save_3`); here the i-th saved step is occurrence i of
    `save`, so that steps of one operation are samples of one series. A step that the manager skips
    (`save_interval_steps`) is `save_skipped`: it moves nothing, and is no fast save.
    """

    options_class = CheckpointManagerOptions
    options: CheckpointManagerOptions

    def run(self, context: Context) -> None:
        target = pytree.abstract(context.tree)
        saved, held = pytree.saved_bytes(context.tree), pytree.held_bytes(context.tree)
        random_state = np.random.RandomState(context.point.checkpoint.random_seed).get_state()
        items = ocp.args.Composite(
            pytree=ocp.args.StandardSave(context.tree),
            json_item=ocp.args.JsonSave(JSON_ITEM),
            np_random_key=ocp.args.NumpyRandomKeySave(random_state),
        )
        wanted = ocp.args.Composite(
            pytree=ocp.args.StandardRestore(target),
            json_item=ocp.args.JsonRestore(),
            np_random_key=ocp.args.NumpyRandomKeyRestore(),
        )
        with contextlib.closing(self._manager(context)) as manager:
            last = None
            for step in range(self.options.train_steps):
                if not manager.should_save(step):
                    with context.measure("save_skipped"):
                        manager.save(step, args=items)
                    continue
                with context.measure("save", payload_bytes=saved, in_background=True) as save:
                    manager.save(step, args=items)
                with context.measure("wait_until_finished") as wait:
                    manager.wait_until_finished()
                context.recorder.throughput(saved, save, wait)
                last = step
            if last is None or manager.latest_step() != last:
                raise RuntimeError(
                    f"step {last} was saved last and the manager finds {manager.latest_step()}"
                )
            with context.measure("restore", payload_bytes=held):
                restored = manager.restore(last, args=wanted)
                jax.block_until_ready(restored["pytree"])
        context.verify(restored["pytree"])
        if restored["json_item"] != JSON_ITEM:
            raise NotEqual(f"the JSON item came back as {restored['json_item']}")
        if not _same_state(random_state, restored["np_random_key"]):
            raise NotEqual("the state of numpy's random numbers came back changed")
        pytree.free(restored["pytree"])

    def _manager(self, context: Context) -> ocp.CheckpointManager:
        if ocp.multihost.is_pathways_backend():
            ocp.pathways.register_type_handlers(
                checkpointing_impl=ocp.pathways.CheckpointingImpl.from_options(use_remote_python=True)
            )
        options = ocp.CheckpointManagerOptions(
            save_interval_steps=self.options.save_interval_steps, max_to_keep=self.options.max_to_keep
        )
        return ocp.CheckpointManager(context.path, options=options)


def _same_state(one: Any, other: Any) -> bool:
    return len(one) == len(other) and all(
        np.array_equal(mine, theirs) for mine, theirs in zip(one, other, strict=True)
    )
