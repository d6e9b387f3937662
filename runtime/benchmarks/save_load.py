"""Saves and loads a tree with the free functions of Orbax's v1 interface."""

from __future__ import annotations

import jax
from orbax.checkpoint import v1 as ocp

from runtime import pytree
from runtime.benchmarks.benchmark import Benchmark, Context
from runtime.benchmarks.v1_settings import settings_of
from runtime.contract.options import SaveLoadOptions


class SaveLoad(Benchmark):
    """Operations: `save_blocking` and `save_background` with `async_enabled`, else `save`; then `load`.

    Orbax's benchmark of this name times both parts of an asynchronous save as one `save`.
    """

    options_class = SaveLoadOptions
    options: SaveLoadOptions

    def run(self, context: Context) -> None:
        path = context.path / "ckpt"
        target = jax.tree.map(ocp.arrays.to_shape_dtype_struct, context.tree)
        saved, held = pytree.saved_bytes(context.tree), pytree.held_bytes(context.tree)
        with ocp.Context(context=settings_of(self.options)):
            if self.options.async_enabled:
                with context.measure("save_blocking", payload_bytes=saved, in_background=True) as blocking:
                    response = ocp.save_async(path, context.tree)
                with context.measure("save_background") as background:
                    response.result()
                context.recorder.throughput(saved, blocking, background)
            else:
                with context.measure("save", payload_bytes=saved):
                    ocp.save(path, context.tree)
            pytree.free(context.tree)
            with context.measure("load", payload_bytes=held):
                restored = ocp.load(path, abstract_state=target)
                jax.block_until_ready(restored)
        context.verify(restored)
        pytree.free(restored)
