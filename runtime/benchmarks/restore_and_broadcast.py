"""Loads a checkpoint into several replicas, read once and sent on or read by each, and saves it from all of them."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from orbax.checkpoint import v1 as ocp

from runtime import pytree
from runtime.benchmarks import references
from runtime.benchmarks.benchmark import Benchmark, Context
from runtime.benchmarks.v1_settings import settings_of
from runtime.contract.options_references import (
    ReplicaParallelOptions,
    ReshardingOptions,
    RestoreAndBroadcastOptions,
)

AXES = ("replica", "model")


class RestoreAndBroadcast(Benchmark):
    """Operation: `load`; with `use_load_and_broadcast` one replica reads and the others have it from there."""

    options_class = RestoreAndBroadcastOptions
    options: RestoreAndBroadcastOptions

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self._known = references.Known()

    def run(self, context: Context) -> None:
        settings = settings_of(self.options)
        with ocp.Context(context=settings):
            path, target = _of_all_replicas(context, self.options)
            with context.measure("load", payload_bytes=pytree.held_bytes(target)):
                loaded = references.load(path, target)
        with ocp.Context():
            self._known.check(path, target, loaded)
        pytree.free(loaded)


class ReplicaParallel(Benchmark):
    """Operations: `save_blocking` and `save_background` with `async_enabled`, else `save`, `num_savings` times each.

    Orbax's benchmark of this name keeps the last of these numbers alone. What was saved last is loaded again, outside
    of the time, and is what was read from the reference.
    """

    options_class = ReplicaParallelOptions
    options: ReplicaParallelOptions

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self._known = references.Known()

    def run(self, context: Context) -> None:
        with ocp.Context(context=settings_of(self.options)):
            path, target = _of_all_replicas(context, self.options)
            tree = references.load(path, target)
            size = pytree.saved_bytes(tree)
            for number in range(self.options.num_savings):
                last = context.path / str(number)
                self._save(context, last, tree, size)
            pytree.free(tree)
            loaded = references.load(str(last), target)
        with ocp.Context():
            self._known.check(path, target, loaded)
        pytree.free(loaded)

    def _save(self, context: Context, path: Any, tree: pytree.Tree, size: int) -> None:
        if not self.options.async_enabled:
            with context.measure("save", payload_bytes=size):
                ocp.save(path, tree)
            return
        with context.measure("save_blocking", payload_bytes=size, in_background=True) as blocking:
            response = ocp.save_async(path, tree)
        with context.measure("save_background") as background:
            response.result()
        context.recorder.throughput(size, blocking, background)


def _of_all_replicas(context: Context, options: ReshardingOptions) -> tuple[str, pytree.Tree]:
    """Returns the checkpoint's path, and its arrays on every replica as the JSON file lays them over one."""
    path, shardings = options.reference_checkpoint_path, options.reference_sharding_path
    assert path is not None and shardings is not None
    mesh = context.mesh
    if mesh is None or mesh.axis_names != AXES:
        told = "none" if mesh is None else " x ".join(map(str, mesh.axis_names))
        raise ValueError(f"the mesh must be {' x '.join(AXES)}, and is {told}")
    single = references.target_of(path, shardings, mesh.devices[0].flatten().tolist())

    def on_all(array: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
        sizes = {name: size for name, size in array.sharding.mesh.shape.items() if name != "replica"}
        devices: np.ndarray = mesh.devices.reshape(-1, *sizes.values())
        every = jax.sharding.Mesh(devices, ("replica", *sizes))
        sharding = jax.sharding.NamedSharding(every, array.sharding.spec)
        return jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=sharding)

    return path, jax.tree.map(on_all, single)
