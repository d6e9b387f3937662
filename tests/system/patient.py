"""A benchmark that waits until it is let go: keeps a run measuring as long as a test wants, and the machine free."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from runtime.benchmarks.benchmark import Benchmark, Context


@dataclass(frozen=True)
class Options:
    """`go`: the file that lets it go."""

    go: str = ""


class Patient(Benchmark):
    """Waits, then measures next to nothing."""

    options_class = Options

    def run(self, context: Context) -> None:
        while not Path(self.options.go).exists():
            time.sleep(0.05)
        with context.measure("compute"):
            pass
