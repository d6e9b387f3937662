"""Saves into hosts' own storage and, more seldom, into storage that all share; restores from each."""

from __future__ import annotations

import contextlib
from typing import Any

import jax
import orbax.checkpoint as ocp
from orbax.checkpoint.experimental.emergency import checkpoint_manager as emergency

from runtime import folders, pytree
from runtime.benchmarks import replicas
from runtime.benchmarks.benchmark import Benchmark, Context
from runtime.contract.options_replicas import EmergencyOptions


class EmergencyCheckpointManager(Benchmark):
    """Operations: `create_checkpoint_manager`; of each step that is saved `save` and `wait_until_finished`; after each
    local one `reload` and `restore_local`, which one replica reads and the others have from it. At the end every host's
    own storage is lost, and `restore_persistent` reads what is shared.

    Orbax's benchmark of this name loses nothing. Each restore must have read the tier that its name says.
    """

    options_class = EmergencyOptions
    options: EmergencyOptions

    def run(self, context: Context) -> None:
        given = self.options
        mesh = replicas.replicated_mesh(context, given.replica_axis_index)
        replicas.arrays_only(context)
        with replicas.numbered(
            by_distributed_id=given.experimental_orbax_use_distributed_process_id,
            meshes_by_distributed_id=given.experimental_use_distributed_id_for_mesh_consistency,
        ):
            local, shared = replicas.make_tiers(context, "emergency")
            target = pytree.abstract(context.tree)
            with context.measure("create_checkpoint_manager"):
                manager = self._manager(mesh, local, shared, target)
            with contextlib.closing(manager):
                self._train(context, manager)
                for step in local.iterdir():
                    folders.remove(step)
                ocp.multihost.sync_global_processes("local_tiers_lost")
                self._restore(context, manager, replicas.newest_in(shared), "restore_persistent")
            replicas.fall_in_step()

    def _train(self, context: Context, manager: emergency.CheckpointManager) -> None:
        """Saves, and restores each local step."""
        size = pytree.held_bytes(context.tree)  # each replica saves a copy
        for step in range(self.options.train_steps):
            if not manager.should_save(step):
                continue
            with context.measure("save", payload_bytes=size, in_background=True) as save:
                manager.save(step, args=ocp.args.Composite(state=ocp.args.PyTreeSave(context.tree)))
            with context.measure("wait_until_finished") as wait:
                manager.wait_until_finished()
            context.recorder.throughput(size, save, wait)
            if step % self.options.local_save_interval_steps == 0:
                ocp.multihost.sync_global_processes(f"saved_{step}")
                with context.measure("reload"):
                    manager.reload()
                self._restore(context, manager, step, "restore_local")

    def _restore(
        self, context: Context, manager: emergency.CheckpointManager, step: int, operation: str
    ) -> None:
        payload = pytree.held_bytes(context.tree)
        tier = "_restore_from_local" if operation == "restore_local" else "_restore_from_persistent"
        tiers = ("_restore_from_local", "_restore_from_persistent")
        watched = replicas.watched(manager._checkpoint_manager, *tiers)
        with watched as used, context.measure(operation, payload_bytes=payload):
            restored = manager.restore(step)["state"]
            jax.block_until_ready(restored)
        replicas.expect_used(used, [tier])
        context.verify(restored)
        pytree.free(restored)

    def _manager(
        self, mesh: jax.sharding.Mesh, local: Any, shared: Any, target: pytree.Tree
    ) -> emergency.CheckpointManager:
        given = self.options
        return emergency.CheckpointManager(
            local_directory=local,
            persistent_directory=shared,
            global_mesh=mesh,
            abstract_state=target,
            options=emergency.CheckpointManagerOptions(
                local=emergency.LocalCheckpointOptions(
                    save_interval_steps=given.local_save_interval_steps, max_to_keep=given.local_max_to_keep
                ),
                persistent=emergency.PersistentCheckpointOptions(
                    save_interval_steps=given.persistent_save_interval_steps,
                    max_to_keep=given.persistent_max_to_keep,
                ),
                replica_axis_index=given.replica_axis_index,
                single_host_load_and_broadcast=given.single_host_load_and_broadcast,
            ),
        )
