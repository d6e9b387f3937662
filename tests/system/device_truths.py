"""Benchmarks whose numbers are known beforehand: test_gpu.py runs them as a user's own classes, on real devices."""

from __future__ import annotations

import time
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from runtime import pytree
from runtime.benchmarks.benchmark import Benchmark, Context
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
