"""Benchmarks that go wrong after a restart, each in its own way; suites of test_restart.py name them."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import numpy as np

from runtime.benchmarks.benchmark import Benchmark, Context
from runtime.contract.options import BenchmarkOptions


@dataclass(frozen=True, kw_only=True)
class Options(BenchmarkOptions):
    """`does` says how it goes on after it was disrupted: anew, older, lies, or right. `awaits`: it lets whoever
    disrupts it come before its last step, however late they are.
    """

    does: str = "right"
    awaits: bool = False


class Forgetful(Benchmark):
    """Saves the one array of five steps as numpy files; alone on one worker."""

    options_class = Options
    options: Options

    def run(self, context: Context) -> None:
        first = 0
        if context.restarted and self.options.does != "anew":
            # When the signal comes, steps may be there that nobody was told of: only the first is older for sure.
            newest = max(int(path.stem) for path in context.path.glob("*.npy"))
            step = 0 if self.options.does == "older" else newest
            self._resume(context, step)
            first = step + 1
        for step in range(first, 5):
            if step == 4 and self.options.awaits and not context.restarted:
                threading.Event().wait()
            tree = context.begin_step(step)
            with context.measure("save"):
                _save(context, step, np.asarray(tree["a"]))
            context.saved_step(step)

    def _resume(self, context: Context, step: int) -> None:
        import jax

        assert context.steps is not None
        with context.measure("restore_after_restart") as took:
            restored = np.load((context.path / f"{step}.npy").open("rb"))
            if self.options.does == "lies":
                restored = restored + 1
            wanted: Any = context.steps.abstract["a"]
            array = jax.device_put(restored, wanted.sharding)
        context.steps.resumed(step, {"a": array}, took)


def _save(context: Context, step: int, array: np.ndarray) -> None:
    part = context.path / f"{step}.part"
    with part.open("wb") as file:
        np.save(file, array)
    part.replace(context.path / f"{step}.npy")
