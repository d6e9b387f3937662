"""Makes what a repeat saves, and what its restores are compared with."""

from __future__ import annotations

import jax

from runtime import pytree, verify
from runtime.benchmarks.benchmark import Context


def make_data(context: Context) -> None:
    """Gives the context its tree, on the devices, if its point names one. Raises ValueError when it cannot be made."""
    checkpoint = context.point.checkpoint
    seed = pytree.seed_of(checkpoint, context.repeat)
    if checkpoint.spec is not None:
        context.tree = pytree.generate(checkpoint.spec, seed, context.mesh)
    elif checkpoint.path is not None:
        context.tree = pytree.load(checkpoint)
    else:
        return
    jax.block_until_ready(context.tree)
    context.expected = verify.expect(context.tree, checkpoint.spec, seed)
