"""A real run whose benchmark fails on one worker: once its cause is gone, --resume measures that point alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.system.prefect_station import ROOT

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]

MOODY = """
from dataclasses import dataclass
from pathlib import Path

import jax

from runtime.benchmarks.benchmark import Benchmark, Context


@dataclass(frozen=True)
class Options:
    size: int = 4
    bad: str = ""


class Moody(Benchmark):
    options_class = Options

    def run(self, context: Context) -> None:
        if self.options.size == 5 and jax.process_index() == 1 and Path(self.options.bad).exists():
            raise RuntimeError("in a bad mood")
        with context.measure("compute"):
            pass
"""


def test_only_the_point_that_failed_is_measured_again(tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    bad.touch()
    (tmp_path / "moody.py").write_text(MOODY)
    suite = tmp_path / "moody.yaml"
    options = f"{{size: [4, 5, 6], bad: {bad}}}"
    suite.write_text(f"suite_name: moody\nbenchmarks:\n  - generator: moody.Moody\n    options: {options}\n")
    environment = os.environ | {"SLICEBENCH_HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT)}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "flows.cli.main", "run", *words, "--no-server"],
            cwd=ROOT, env=environment, capture_output=True, text=True,
        )  # fmt: skip

    first = run(str(suite), "--run-id", "m", "--workers", "2", "--devices-per-worker", "1")
    assert first.returncode == 1, first.stderr
    bad.unlink()
    second = run("--resume", "m")
    assert second.returncode == 0, second.stderr
    folder = tmp_path / "home" / "runs" / "m"
    points = json.loads((folder / "points.json").read_text())["points"]
    assert [(one["status"], one["attempt"]) for one in points] == [
        ("passed", 1),
        ("passed", 2),
        ("passed", 1),
    ]
    again = (folder / "results" / "points-a2-w0001.jsonl").read_text().splitlines()
    assert [json.loads(line)["point"] for line in again] == [1]
