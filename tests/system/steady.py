"""A benchmark that takes as long as it is told by PACE_S, whatever else the machine does: as a user would write one."""

from __future__ import annotations

import os
import time

from runtime.benchmarks.benchmark import Benchmark, Context
from runtime.contract.options import BenchmarkOptions


class Steady(Benchmark):
    """Sleeps. Memory and bytes are nothing."""

    options_class = BenchmarkOptions

    def run(self, context: Context) -> None:
        with context.measure("save"):
            time.sleep(float(os.environ["PACE_S"]))
