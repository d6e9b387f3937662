"""Benchmarks whose numbers are known beforehand: test_gpu.py runs them as a user's own classes, on real devices."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import orbax.checkpoint as ocp

from runtime import pytree
from runtime.benchmarks.benchmark import Benchmark, Context
from runtime.benchmarks.pytree_checkpoint import PyTreeCheckpoint
from runtime.contract.options import BenchmarkOptions


@dataclass(frozen=True, kw_only=True)
class Size(BenchmarkOptions):
    mib: int = 64


class Hold(Benchmark):
    """Takes so much memory of a device and gives it back within one block, long enough to be sampled."""

    options_class = Size

    def run(self, context: Context) -> None:
        with context.measure("hold"):
            array = jnp.ones((self.options.mib, 1 << 20), jnp.uint8).block_until_ready()
            time.sleep(0.1)
            array.delete()


class Alter(Benchmark):
    """Gives back another tree than it was given, by one element, made on the device."""

    options_class = BenchmarkOptions

    def run(self, context: Context) -> None:
        kernel = context.tree["kernel"]
        context.verify({"kernel": kernel + 0})
        with context.measure("alter"):
            altered = jax.jit(lambda array: array.at[5, 3].add(1.0), out_shardings=kernel.sharding)(kernel)
        context.verify({"kernel": altered})
        pytree.free(altered)


class Beside(PyTreeCheckpoint):
    """Does what ours does with Orbax alone as well, in turn: timed by a clock of its own, nothing of ours around."""

    def run(self, context: Context) -> None:
        first = context.repeat % 2 == 0
        if first:
            self._alone(context)
        tree = context.tree
        context.tree = jax.tree.map(jnp.copy, tree)  # ours frees what it has saved
        try:
            super().run(context)
        finally:
            context.tree = tree
        if not first:
            self._alone(context)

    def _alone(self, context: Context) -> None:
        path, target = context.path / "alone", pytree.abstract(context.tree)
        wanted = ocp.args.PyTreeRestore(
            item=target, restore_args=ocp.checkpoint_utils.construct_restore_args(target)
        )
        with contextlib.closing(self._checkpointer()) as checkpointer:
            began = time.perf_counter()
            checkpointer.save(path, args=ocp.args.PyTreeSave(context.tree))
            assert isinstance(checkpointer, ocp.AsyncCheckpointer)
            checkpointer.wait_until_finished()
            saved = time.perf_counter()
            restored = jax.block_until_ready(checkpointer.restore(path, args=wanted))
            context.value("alone", "restore_alone_s", time.perf_counter() - saved, "s")
            context.value("alone", "save_alone_s", saved - began, "s")
        context.verify(restored)
        pytree.free(restored)
