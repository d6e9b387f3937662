"""A benchmark that stops in the second turn of its size 2, until it is killed: as a user's own class."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import jax

from runtime.benchmarks.benchmark import Benchmark, Context


@dataclass(frozen=True)
class Options:
    """`held`: the folder into which a worker that is held writes its number; where it has, it is not held again."""

    size: int = 1
    held: str = ""


class Turner(Benchmark):
    """Measures next to nothing."""

    options_class = Options

    def run(self, context: Context) -> None:
        with context.measure("before"):
            pass
        mine = Path(self.options.held) / str(jax.process_index())
        if (self.options.size, context.repeat) == (2, 1) and not mine.exists():
            mine.touch()
            while True:
                time.sleep(1)
        with context.measure("after"):
            pass


class Before(Turner):
    """Another class: its points take no turns with the others'."""
