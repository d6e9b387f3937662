"""Saves and loads a tree with the free functions of Orbax's v1 interface."""

from __future__ import annotations

import jax
from orbax.checkpoint import v1 as ocp

from runtime import pytree
from runtime.benchmarks.benchmark import Benchmark, Context
from runtime.contract.options import SaveLoadOptions

GIB = 1024**3


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
        with ocp.Context(context=self._settings()):
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

    def _settings(self) -> ocp.Context:
        options, settings = self.options, ocp.Context()
        saving = settings.array.saving
        saving.storage_options.chunk_byte_size = options.chunk_byte_size
        saving.use_ocdbt = options.use_ocdbt
        saving.use_zarr3 = options.use_zarr3
        saving.use_compression = options.use_compression
        saving.use_replica_parallel = options.use_replica_parallel
        saving.enable_replica_parallel_separate_folder = options.enable_replica_parallel_separate_folder
        settings.array.loading.use_load_and_broadcast = options.use_load_and_broadcast
        settings.memory.write_concurrent_bytes = _gib(options.save_concurrent_gb)
        settings.memory.read_concurrent_bytes = _gib(options.restore_concurrent_gb)
        return settings


def _gib(count: int | None) -> int | None:
    return None if count is None else count * GIB
