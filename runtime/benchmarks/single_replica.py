"""Saves a tree and lets one replica restore it, from which all others have it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import jax
import orbax.checkpoint as ocp
from orbax.checkpoint import type_handlers

from runtime import pytree
from runtime.benchmarks import replicas
from runtime.benchmarks.benchmark import Benchmark, Context
from runtime.contract.options_replicas import SingleReplicaOptions


class SingleReplica(Benchmark):
    """Operations: `save`, `wait_until_finished`, `construct_restore_args`, `restore`.

    Orbax's benchmark of this name compares, and logs every value, within the time of its restore.
    """

    options_class = SingleReplicaOptions
    options: SingleReplicaOptions

    def run(self, context: Context) -> None:
        given = self.options
        mesh = replicas.replicated_mesh(context, given.replica_axis_index)
        replicas.arrays_only(context)
        path, target = context.path / "single_replica", pytree.abstract(context.tree)
        saved, held = pytree.saved_bytes(context.tree), pytree.held_bytes(context.tree)
        with (
            replicas.numbered(by_distributed_id=given.use_distributed_process_id),
            self._handlers(),
            contextlib.closing(ocp.AsyncCheckpointer(ocp.PyTreeCheckpointHandler())) as checkpointer,
        ):
            with context.measure("save", payload_bytes=saved, in_background=True) as save:
                checkpointer.save(path, args=ocp.args.PyTreeSave(context.tree))
            with context.measure("wait_until_finished") as wait:
                checkpointer.wait_until_finished()
            context.recorder.throughput(saved, save, wait)
            pytree.free(context.tree)
            with context.measure("construct_restore_args"):
                wanted = self._wanted(target, replicas.own_replica(mesh, given.replica_axis_index))
            with context.measure("restore", payload_bytes=held):
                restored = checkpointer.restore(path, args=wanted)
                jax.block_until_ready(restored)
        context.verify(restored)
        pytree.free(restored)

    def _wanted(self, target: pytree.Tree, own: jax.sharding.Mesh) -> ocp.args.PyTreeRestore:
        def one(array: jax.ShapeDtypeStruct) -> type_handlers.SingleReplicaArrayRestoreArgs:
            return type_handlers.SingleReplicaArrayRestoreArgs(
                sharding=array.sharding,
                single_replica_sharding=jax.sharding.NamedSharding(own, array.sharding.spec),
                global_shape=array.shape,
                dtype=array.dtype,
            )

        return ocp.args.PyTreeRestore(item=target, restore_args=jax.tree.map(one, target))

    @contextlib.contextmanager
    def _handlers(self) -> Iterator[None]:
        """Lets Orbax handle arrays by one replica while inside; it knows but one handler of a process."""
        # Orbax has no public name for these.
        from orbax.checkpoint._src.serialization import pathways_handler_registry

        given = self.options
        before = type_handlers.get_type_handler(jax.Array)
        pathways_handler_registry.register_pathways_handlers(
            use_single_replica_array_handler=True,
            checkpointing_impl=pathways_handler_registry.CheckpointingImpl.from_options(
                use_colocated_python=given.use_colocated_python
            ),
            replica_axis_index=given.replica_axis_index,
            primary_replica_id=given.primary_replica_id,
            use_replica_parallel=given.use_replica_parallel,
            broadcast_memory_limit_bytes=given.broadcast_memory_limit_bytes,
            broadcast_memory_scaling_factor=given.broadcast_memory_scaling_factor,
        )
        try:
            yield
        finally:
            type_handlers.register_type_handler(jax.Array, before, override=True)
