"""A benchmark that takes as long as it is told by PACE_S, whatever else the machine does: as a user would write one."""

from __future__ import annotations

import os
import time
from unittest import mock

from runtime import measure
from runtime.benchmarks.benchmark import Benchmark, Context
from runtime.contract.options import BenchmarkOptions


class _Clock:
    """Stands for the module time in the recorder: it runs when it is told to, and a busy machine adds nothing."""

    time = staticmethod(time.time)

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now


class Steady(Benchmark):
    """Memory and bytes are nothing. Repeats are a few thousandths off, as those of a quiet machine."""

    options_class = BenchmarkOptions

    def run(self, context: Context) -> None:
        clock = _Clock()
        with mock.patch.object(measure, "time", clock), context.measure("save"):
            clock.now += float(os.environ["PACE_S"]) * (1 + 0.002 * (context.repeat % 5 - 2))
