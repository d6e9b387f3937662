"""A real run whose benchmark fails on one worker: once its cause is gone, --resume measures that point alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.system.prefect_station import PATIENCE_S, ROOT
from tests.system.suites import lay_suite

pytestmark = pytest.mark.system


def test_only_the_point_that_failed_is_measured_again(tmp_path: Path, home: Path) -> None:
    bad = tmp_path / "bad"
    bad.touch()
    suite = lay_suite(tmp_path / "suite", "moody", size=[4, 5, 6], bad=str(bad))

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "flows.cli.main", "run", *words, "--no-server"],
            cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)},
            capture_output=True, text=True, timeout=PATIENCE_S,
        )  # fmt: skip

    first = run(str(suite), "--run-id", "m", "--workers", "2", "--devices-per-worker", "1")
    assert first.returncode == 1, first.stderr
    assert "in a bad mood" in first.stderr
    bad.unlink()
    second = run("--resume", "m")
    assert second.returncode == 0, second.stderr
    assert_only_the_middle_was_measured_again(home / "runs" / "m")


def assert_only_the_middle_was_measured_again(folder: Path) -> None:
    points = json.loads((folder / "points.json").read_text())["points"]
    assert [(one["status"], one["attempt"]) for one in points] == [
        ("passed", 1),
        ("passed", 2),
        ("passed", 1),
    ]
    again = (folder / "results" / "points-a2-w0001.jsonl").read_text().splitlines()
    assert [json.loads(line)["point"] for line in again] == [1]
