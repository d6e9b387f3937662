"""Saves and restores a tree of many small arrays: what each array costs beside its bytes."""

from __future__ import annotations

import dataclasses

import jax

from runtime import pytree, verify
from runtime.benchmarks.benchmark import Benchmark, Context
from runtime.benchmarks.pytree_checkpoint import PyTreeCheckpoint
from runtime.contract.options_strains import ManyArraysOptions
from runtime.contract.suite import ArraySpec


class ManyArrays(Benchmark):
    """Operations: those of PyTreeCheckpoint. `files` of the checkpoint and `write_requests` of the save tell how Orbax
    packs them.
    """

    options_class = ManyArraysOptions
    options: ManyArraysOptions

    def run(self, context: Context) -> None:
        given = self.options
        axes = None if context.mesh is None else (context.mesh.axis_names,)
        one = ArraySpec("float32", (given.elements,), axes)
        spec = {f"array_{number:06d}": one for number in range(given.arrays)}
        seed = pytree.seed_of(context.point.checkpoint, context.repeat)
        tree = jax.block_until_ready(pytree.generate(spec, seed, context.mesh))
        expected = verify.expect(tree, spec, seed)
        PyTreeCheckpoint(given).run(dataclasses.replace(context, tree=tree, expected=expected))
