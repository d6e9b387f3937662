"""Saves into hosts' own storage; restores from it, from another host's over the network, and from what all share."""

from __future__ import annotations

import contextlib

import jax
import orbax.checkpoint as ocp
from etils import epath
from orbax.checkpoint.experimental.emergency.p2p import args as p2p_args
from orbax.checkpoint.experimental.emergency.p2p import checkpoint_manager as p2p
from orbax.checkpoint.experimental.emergency.p2p import options as p2p_options

from runtime import folders, pytree
from runtime.benchmarks import replicas
from runtime.benchmarks.benchmark import Benchmark, Context
from runtime.contract.options_replicas import PeerToPeerOptions

_LOCAL, _SHARED = "_restore_from_local_or_p2p", "_restore_from_persistent_storage"


class PeerToPeer(Benchmark):
    """Operations: `create_checkpoint_manager`; of each step that is saved `save` and `wait_until_finished`. After each
    local step but the first `restore_local`; then worker 0 loses its own copy, `reload`, `restore_peer`: it has it from
    another; then, where the step is in shared storage too, all lose theirs, `reload`, `restore_persistent`.

    Orbax's manager goes on to the next tier in silence; here each restore must have read the one that its name says.
    """

    options_class = PeerToPeerOptions
    options: PeerToPeerOptions

    def run(self, context: Context) -> None:
        mesh = replicas.replicated_mesh(context, self.options.replica_axis_index)
        replicas.arrays_only(context)
        with replicas.numbered(by_distributed_id=False):
            local, shared = replicas.make_tiers(context, "p2p")
            with context.measure("create_checkpoint_manager"):
                manager = self._manager(mesh, local, shared, pytree.abstract(context.tree))
            with contextlib.closing(manager):
                self._train(context, manager, local)
            replicas.fall_in_step()

    def _train(self, context: Context, manager: p2p.CheckpointManager, local: epath.Path) -> None:
        given = self.options
        size = pytree.held_bytes(context.tree)  # each replica saves a copy
        for step in range(given.train_steps):
            if not manager.should_save(step):
                continue
            with context.measure("save", payload_bytes=size, in_background=True) as save:
                manager.save(step, args=p2p_args.Composite(state=ocp.args.PyTreeSave(context.tree)))
            with context.measure("wait_until_finished") as wait:
                manager.wait_until_finished()
            context.recorder.throughput(size, save, wait)
            if step == 0 or step % given.local_save_interval_steps:
                continue
            ocp.multihost.sync_global_processes(f"saved_{step}")
            self._restore(context, manager, step, "restore_local")
            self._lose(context, manager, local / str(step), only_first=True)
            self._restore(context, manager, step, "restore_peer")
            if step % given.persistent_save_interval_steps == 0:
                self._lose(context, manager, local / str(step), only_first=False)
                self._restore(context, manager, step, "restore_persistent")

    def _restore(self, context: Context, manager: p2p.CheckpointManager, step: int, operation: str) -> None:
        target = pytree.abstract(context.tree)
        wanted = ocp.args.PyTreeRestore(
            item=target, restore_args=ocp.checkpoint_utils.construct_restore_args(target)
        )
        with (
            replicas.watched(manager, _LOCAL, _SHARED) as used,
            replicas.watched(manager._p2p, "fetch") as fetched,
            context.measure(operation, payload_bytes=pytree.held_bytes(target)),
        ):
            restored = manager.restore(step, args=p2p_args.Composite(state=wanted))["state"]
            jax.block_until_ready(restored)
        replicas.expect_used(used, [_SHARED] if operation == "restore_persistent" else [_LOCAL])
        from_peer = operation == "restore_peer" and jax.process_index() == 0
        replicas.expect_used(fetched, ["fetch"] if from_peer else [])
        context.verify(restored)
        pytree.free(restored)

    def _lose(
        self, context: Context, manager: p2p.CheckpointManager, step: epath.Path, *, only_first: bool
    ) -> None:
        """Removes a step from the storage of the first host, or of all, as if these hosts had been replaced."""
        if jax.process_index() == 0 or not only_first:
            folders.remove(step)
        ocp.multihost.sync_global_processes(f"lost_{step.name}_{only_first}")
        with context.measure("reload"):
            manager.reload()

    def _manager(
        self, mesh: jax.sharding.Mesh, local: epath.Path, shared: epath.Path, target: pytree.Tree
    ) -> p2p.CheckpointManager:
        given = self.options
        return p2p.CheckpointManager(
            local_directory=local,
            persistent_directory=shared,
            global_mesh=mesh,
            abstract_state=target,
            options=p2p_options.CheckpointManagerOptions(
                local=p2p_options.LocalCheckpointOptions(
                    save_interval_steps=given.local_save_interval_steps, max_to_keep=given.local_max_to_keep
                ),
                persistent=p2p_options.PersistentCheckpointOptions(
                    save_interval_steps=given.persistent_save_interval_steps,
                    max_to_keep=given.persistent_max_to_keep,
                ),
                replica_axis_index=given.replica_axis_index,
            ),
        )
