"""Saves and restores a tree with PyTreeCheckpointHandler: what most training programs do."""

from __future__ import annotations

import contextlib
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp

from runtime import pytree
from runtime.benchmarks.benchmark import Benchmark, Context
from runtime.contract.options import PyTreeCheckpointOptions


class PyTreeCheckpoint(Benchmark):
    """Operations: `save` (async: its blocking part), `wait_until_finished` (async: the rest), `restore`."""

    options_class = PyTreeCheckpointOptions
    options: PyTreeCheckpointOptions

    def unavailable(self) -> str | None:
        if self.options.use_colocated_python and not ocp.multihost.is_pathways_backend():
            return "use_colocated_python needs Pathways"
        return None

    def run(self, context: Context) -> None:
        path = context.path / "pytree"
        target = pytree.abstract(context.tree)
        saved, held = pytree.saved_bytes(context.tree), pytree.held_bytes(context.tree)
        with contextlib.closing(self._checkpointer()) as checkpointer:
            goes_on = self.options.async_enabled
            with context.measure("save", payload_bytes=saved, in_background=goes_on) as save:
                checkpointer.save(path, args=ocp.args.PyTreeSave(context.tree))
            if goes_on:
                with context.measure("wait_until_finished") as wait:
                    checkpointer.wait_until_finished()
                context.recorder.throughput(saved, save, wait)
            pytree.free(context.tree)
            arguments = ocp.args.PyTreeRestore(
                item=target, restore_args=ocp.checkpoint_utils.construct_restore_args(target)
            )
            with context.measure("restore", payload_bytes=held):
                restored = checkpointer.restore(path, args=arguments)
                jax.block_until_ready(restored)
            context.verify(restored)
            pytree.free(restored)

    def _checkpointer(self) -> ocp.Checkpointer:
        options = self.options
        handler = ocp.PyTreeCheckpointHandler(
            use_ocdbt=options.use_ocdbt,
            use_zarr3=options.use_zarr3,
            use_compression=options.use_compression,
            save_concurrent_gb=options.save_concurrent_gb,
            restore_concurrent_gb=options.restore_concurrent_gb,
            type_handler_registry=registry(options),
            save_device_host_concurrent_gb=options.save_device_host_concurrent_gb,
            # As in Orbax's benchmark of this name: what leaves the devices first is part of what is measured.
            is_prioritized_key_fn=lambda key: "a" in ocp.tree.str_keypath(key),
        )
        return ocp.AsyncCheckpointer(handler) if options.async_enabled else ocp.Checkpointer(handler)


def registry(options: PyTreeCheckpointOptions) -> Any:
    """Returns how each type of leaf is saved: as Orbax does, but for arrays as the options say.

    A registry of its own: what is registered for the whole process would outlive the point.
    """
    if ocp.multihost.is_pathways_backend():
        # Pathways knows but one registry, that of the process.
        ocp.pathways.register_type_handlers(
            checkpointing_impl=ocp.pathways.CheckpointingImpl.from_options(
                use_colocated_python=options.use_colocated_python
            ),
            use_replica_parallel=options.use_replica_parallel,
            enable_replica_parallel_separate_folder=options.enable_replica_parallel_separate_folder,
        )
        return ocp.type_handlers.GLOBAL_TYPE_HANDLER_REGISTRY
    arrays = ocp.type_handlers.ArrayHandler(
        use_replica_parallel=options.use_replica_parallel,
        enable_replica_parallel_separate_folder=options.enable_replica_parallel_separate_folder,
    )
    others = (int, float, bytes, str, np.number, np.ndarray)
    return ocp.type_handlers.create_type_handler_registry(
        *((kind, ocp.type_handlers.get_type_handler(kind)) for kind in others), (jax.Array, arrays)
    )
