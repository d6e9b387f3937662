"""Writes and reads one array with Orbax's ArrayHandler alone, below checkpointers and their metadata."""

from __future__ import annotations

import asyncio
from typing import Any

import jax
from orbax.checkpoint import multihost, type_handlers

from runtime import pytree
from runtime.benchmarks.benchmark import Benchmark, Context
from runtime.contract.options import ArrayHandlerOptions

ARRAY = "array"
"""The leaf that is written; the point's tree must have it."""


class ArrayHandler(Benchmark):
    """Operations: `serialize`, `merge_ocdbt` (with OCDBT), `metadata_validation`, `deserialize`.

    As in Orbax's benchmark of this name, each operation ends when all workers have done it.
    """

    options_class = ArrayHandlerOptions
    options: ArrayHandlerOptions

    def unavailable(self) -> str | None:
        if self.options.use_colocated_python and not multihost.is_pathways_backend():
            return "use_colocated_python needs Pathways"
        return None

    def run(self, context: Context) -> None:
        array = context.tree[ARRAY]
        handler, info = self._handler(), self._info(context)
        saved, held = pytree.saved_bytes({ARRAY: array}), pytree.held_bytes({ARRAY: array})
        with context.measure("serialize", payload_bytes=saved):
            asyncio.run(_serialize(handler, array, info))
            multihost.sync_global_processes("serialize")
        if self.options.use_ocdbt:
            with context.measure("merge_ocdbt"):
                asyncio.run(
                    type_handlers.merge_ocdbt_per_process_files(
                        context.path, ts_context=info.ts_context, use_zarr3=self.options.use_zarr3
                    )
                )
                multihost.sync_global_processes("merge_ocdbt")
        with context.measure("metadata_validation"):
            metadata = asyncio.run(handler.metadata([info]))[0]
            _validate(metadata, array)
            multihost.sync_global_processes("metadata_validation")
        arguments = type_handlers.ArrayRestoreArgs(
            sharding=array.sharding, global_shape=array.shape, dtype=array.dtype
        )
        with context.measure("deserialize", payload_bytes=held):
            restored = asyncio.run(handler.deserialize([info], args=[arguments]))[0]
            jax.block_until_ready(restored)
            multihost.sync_global_processes("deserialize")
        context.verify(restored, leaf=ARRAY)
        pytree.free(restored)

    def _handler(self) -> Any:
        # Orbax has no public name for these two.
        from orbax.checkpoint._src.metadata.array_metadata_store import Store
        from orbax.checkpoint._src.multihost.dispatchers import ColocatedPythonDispatcher

        options = self.options
        return type_handlers.ArrayHandler(
            use_replica_parallel=options.use_replica_parallel,
            enable_replica_parallel_separate_folder=options.enable_replica_parallel_separate_folder,
            array_metadata_store=Store() if options.use_metadata_store else None,
            dispatcher=ColocatedPythonDispatcher() if options.use_colocated_python else None,
        )

    def _info(self, context: Context) -> type_handlers.ParamInfo:
        return type_handlers.ParamInfo(
            name=ARRAY,
            parent_dir=context.path,
            use_zarr3=self.options.use_zarr3,
            is_ocdbt_checkpoint=self.options.use_ocdbt,
            ts_context=type_handlers.get_ts_context(use_ocdbt=self.options.use_ocdbt),
            value_typestr=type_handlers.get_type_handler(jax.Array).typestr(),
            raise_array_data_missing_error=True,
        )


async def _serialize(handler: Any, array: jax.Array, info: type_handlers.ParamInfo) -> None:
    futures = await handler.serialize([array], [info], args=[type_handlers.SaveArgs()])
    await asyncio.gather(*(asyncio.to_thread(future.result) for future in futures))


def _validate(metadata: Any, array: jax.Array) -> None:
    """Raises ValueError when what was written down of the array is not what it is."""
    sharding = metadata.sharding.to_jax_sharding() if metadata.sharding is not None else None
    for what, written, real in (
        ("shape", tuple(metadata.shape), array.shape),
        ("dtype", metadata.dtype, array.dtype),
        ("sharding", sharding, array.sharding),
    ):
        if written != real:
            raise ValueError(f"metadata of {ARRAY} say {what} {written} and it is {real}")
