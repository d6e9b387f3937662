"""What our worker takes from start to exit against Orbax's own runner: as shipped, and with TensorFlow stubbed out."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.bench.bars import Bar, bar
from tests.bench.pace import rounds
from tests.bench.peers import Passage, environment_python, run_orbax, run_ours
from tests.bench.suites import DEVICES, POINTS, suite

REPEATS = 3
RUNS = REPEATS * POINTS

ROUNDS = (6, 10)
BUDGET_S = 150.0
ROUNDS_AS_SHIPPED = 4
"""TensorFlow's import takes most of such a round, and the ratio is far from its bar."""


def measure() -> list[Bar]:
    """Runs all rounds of six tiny points, and returns the bars."""
    python = environment_python()
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        tiny = suite(folder, "tiny", repeats=REPEATS, arrays=4, rows=256)
        runners: Mapping[str, Callable[[Path], Passage]] = {
            "ours": lambda out: run_ours(python, tiny, DEVICES, out),
            "stubbed": lambda out: run_orbax(python, tiny, DEVICES, out, stubbed=True),
            "shipped": lambda out: run_orbax(python, tiny, DEVICES, out, stubbed=False),
        }
        runs = _rounds(runners, folder)
    totals = {who: [each.total for each in passages] for who, passages in runs.items()}
    outside = {who: [each.outside / RUNS for each in passages] for who, passages in runs.items()}
    also = totals["ours"][:ROUNDS_AS_SHIPPED]
    return [
        bar("six tiny points / Orbax's runner as shipped", also, totals["shipped"], at_most=0.4),
        bar("six tiny points / without TensorFlow", totals["ours"], totals["stubbed"], at_most=1.0),
        bar(
            "outside measured blocks, a point / without TensorFlow",
            outside["ours"], outside["stubbed"], at_most=0.5, unit="ms",
        ),
    ]  # fmt: skip


def _rounds(runners: Mapping[str, Callable[[Path], Passage]], folder: Path) -> dict[str, list[Passage]]:
    """Runs each once without counting it, then in every round, in another order each time."""
    found: dict[str, list[Passage]] = {who: [] for who in runners}

    def play(who: str, number: int) -> Passage:
        out = folder / f"{who}-{number}"
        try:
            return runners[who](out)
        finally:
            shutil.rmtree(out, ignore_errors=True)

    for who in runners:
        play(who, -1)
    for number in rounds("start to exit", *ROUNDS, BUDGET_S):
        names = [who for who in runners if who != "shipped" or number < ROUNDS_AS_SHIPPED]
        shift = number % len(names)
        for who in names[shift:] + names[:shift]:
            found[who].append(play(who, number))
    return found
