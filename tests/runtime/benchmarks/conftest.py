"""Runs a suite's text through the real reader, engine and journal, in this process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from runtime.contract.expand import expand
from runtime.contract.results import PointResult, Sample
from runtime.contract.suite_reader import read_suite
from runtime.engine import Engine
from runtime.fitting import fit_here
from runtime.progress_out import ProgressWriter
from runtime.results_io import Journal
from runtime.settings import parse

DATA = """
suite_name: test
mesh_config: {mesh_axes: [data, model], ici_parallelism: {data: 4, model: 2}}
checkpoint_config:
  spec:
    array: {dtype: float32, shape: [16, 32], sharding: [data, model]}
    half: {dtype: bfloat16, shape: [8, 4], sharding: [[data, model], null]}
    whole: {dtype: int32, shape: [6]}
    step: int
benchmarks:
  - generator: GENERATOR
    options: OPTIONS
    MORE
"""


@dataclass(frozen=True)
class Outcome:
    """What the points of a suite left behind."""

    results: list[PointResult]
    samples: list[Sample]

    def operations(self, point: int = 0) -> list[tuple[str, int]]:
        """Returns the timed operations of a point with their occurrence, in order."""
        return [
            (each.operation, each.occurrence)
            for each in self.samples
            if each.point == point and each.metric == "time_s"
        ]

    def value(self, operation: str, metric: str) -> float:
        """Returns the only value of a metric."""
        (found,) = (
            each.value for each in self.samples if (each.operation, each.metric) == (operation, metric)
        )
        return found


RunSuite = Callable[..., Outcome]


RunText = Callable[[str], Outcome]


@pytest.fixture
def run_suite(run_text: RunText) -> RunSuite:
    def go(generator: str, options: str = "{}", more: str = "") -> Outcome:
        return run_text(
            DATA.replace("GENERATOR", generator).replace("OPTIONS", options).replace("MORE", more)
        )

    return go


@pytest.fixture
def run_text(tmp_path: Path) -> RunText:
    def go(text: str) -> Outcome:
        suite = read_suite(text, "suite.yaml")
        settings = parse(["suite.yaml", "--output", str(tmp_path / "run")], {})
        journal = tmp_path / "scratch" / "journal.jsonl"
        with Journal(journal) as open_journal:
            Engine(settings, suite, open_journal, ProgressWriter(None), tmp_path / "scratch").run(
                fit_here(expand(suite))
            )
        records = list(Journal.read(journal))
        return Outcome(
            [each for each in records if isinstance(each, PointResult)],
            [each for each in records if isinstance(each, Sample)],
        )

    return go
