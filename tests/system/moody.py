"""A benchmark whose point of size 5 fails on worker 1 for as long as a file is there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import jax

from runtime.benchmarks.benchmark import Benchmark, Context


@dataclass(frozen=True)
class Options:
    """`bad`: the file that makes it fail."""

    size: int = 4
    bad: str = ""


class Moody(Benchmark):
    """Measures next to nothing."""

    options_class = Options

    def run(self, context: Context) -> None:
        if self.options.size == 5 and jax.process_index() == 1 and Path(self.options.bad).exists():
            raise RuntimeError("in a bad mood")
        with context.measure("compute"):
            pass
