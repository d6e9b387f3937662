"""Trains and saves at every step, as often as it can, and restores what the last step left."""

from __future__ import annotations

import contextlib

import jax
import jax.numpy as jnp
import orbax.checkpoint as ocp

from runtime import pytree, verify
from runtime.benchmarks.benchmark import Benchmark, Context
from runtime.contract.options_managers import CheckpointManagerPerfOptions

ITEM = "pytree_item"


class CheckpointManagerPerf(Benchmark):
    """Operations: `train_step`, `save` and `wait_until_finished` of each step, then `restore`.

    Orbax's benchmark of this name times both parts of a save as one, and puts the step into the name.
    """

    options_class = CheckpointManagerPerfOptions
    options: CheckpointManagerPerfOptions

    def run(self, context: Context) -> None:
        last = self.options.train_steps - 1
        tree = context.tree
        saved = pytree.saved_bytes(tree)
        with contextlib.closing(self._manager(context)) as manager:
            for step in range(self.options.train_steps):
                with context.measure("train_step"):
                    tree = jax.block_until_ready(_train(tree))
                with context.measure("save", payload_bytes=saved, in_background=True) as save:
                    manager.save(step, args=ocp.args.Composite(**{ITEM: ocp.args.PyTreeSave(tree)}))
                with context.measure("wait_until_finished") as wait:
                    manager.wait_until_finished()
                context.recorder.throughput(saved, save, wait)
            if list(manager.all_steps()) != [last]:
                raise RuntimeError(
                    f"only step {last} is to be kept, and there are {list(manager.all_steps())}"
                )
            expected, target = verify.expect(tree, None, ""), pytree.abstract(tree)
            pytree.free(tree)
            pytree.free(context.tree)
            wanted = ocp.args.PyTreeRestore(
                item=target, restore_args=ocp.checkpoint_utils.construct_restore_args(target)
            )
            with context.measure("restore", payload_bytes=pytree.held_bytes(target)):
                restored = manager.restore(last, args=ocp.args.Composite(**{ITEM: wanted}))[ITEM]
                jax.block_until_ready(restored)
        verify.check(expected, restored)
        pytree.free(restored)

    def _manager(self, context: Context) -> ocp.CheckpointManager:
        policies = ocp.checkpoint_managers
        return ocp.CheckpointManager(
            context.path,
            options=ocp.CheckpointManagerOptions(
                save_decision_policy=policies.ContinuousCheckpointingPolicy(),
                preservation_policy=policies.LatestN(n=1),
            ),
            item_handlers={
                ITEM: ocp.PyTreeCheckpointHandler(
                    use_ocdbt=self.options.use_ocdbt, use_zarr3=self.options.use_zarr3
                )
            },
        )


@jax.jit
def _next(tree: pytree.Tree) -> pytree.Tree:
    return jax.tree.map(lambda array: array + jnp.ones((), array.dtype), tree)


def _train(tree: pytree.Tree) -> pytree.Tree:
    """Returns the tree with every array changed, for a step; scalars stay."""
    leaves, structure = jax.tree.flatten(tree)
    arrays = iter(_next([leaf for leaf in leaves if isinstance(leaf, jax.Array)]))
    after = [next(arrays) if isinstance(leaf, jax.Array) else leaf for leaf in leaves]
    return jax.tree.unflatten(structure, after)
