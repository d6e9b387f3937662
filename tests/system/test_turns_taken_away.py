"""Real workers are killed while points of a sweep take turns: what is done stands, and no two attempts mix."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from runtime.contract.job import LEASE_VARIABLE, Deadlines
from runtime.contract.progress import Started
from runtime.supervision.processes import labelled
from tests.runtime.supervised import Crew
from tests.system.prefect_station import PATIENCE_S, ROOT, wait_for

pytestmark = pytest.mark.system

WORKERS, REPEATS = 2, 3
HELD, SIZES = 2, (1, 2, 3)
"""Point 0 is over before the turns begin; points 1 to 3 take turns, and the second one is held in its second."""


@pytest.fixture
def held(tmp_path: Path) -> Path:
    (tmp_path / "held").mkdir()
    return tmp_path / "held"


def lay(folder: Path, held: Path, module: str) -> Path:
    """Writes the suite, with its class in `module`; returns its path."""
    benchmarks = [
        {"generator": f"{module}.Before", "options": {"held": str(held)}},
        {"generator": f"{module}.Turner", "options": {"held": str(held), "size": list(SIZES)}},
    ]
    asked = {"suite_name": "turns", "num_repeats": REPEATS, "interleave": True, "limits": False}
    path = folder / "turns.yaml"
    path.write_text(yaml.safe_dump({**asked, "benchmarks": benchmarks}))
    return path


def all_held(held: Path) -> bool:
    return len(list(held.iterdir())) == WORKERS


def done(samples: pd.DataFrame, operation: str = "after") -> dict[int, list[int]]:
    """Returns of each point which repeats were timed, once on each worker."""
    timed = samples[(samples.metric == "time_s") & (samples.operation == operation)]
    counts = Counter(zip(timed.point, timed.repeat, timed.worker, strict=True))
    assert set(counts.values()) == {1}, "nothing is there twice"
    each = timed[["point", "repeat", "worker"]].groupby("point").repeat.agg(list)
    assert all(Counter(repeats).total() == WORKERS * len(set(repeats)) for repeats in each)
    return {int(point): sorted(set(repeats)) for point, repeats in each.items()}


def test_a_worker_that_is_killed_fails_its_point_and_the_others_go_on_with_their_turns(
    tmp_path: Path, held: Path
) -> None:
    crew = Crew(tmp_path, workers=WORKERS)
    suite = lay(tmp_path, held, "tests.system.turner")
    patient = Deadlines(init_s=PATIENCE_S, operation_s=PATIENCE_S)
    crew.job = {"python": sys.executable, "suite": str(suite), "devices_per_worker": 1, "deadlines": patient}
    try:
        crew.start()
        wait_for(lambda: all_held(held))
        os.kill(crew.bodies(Started, 1)[-1].pid, signal.SIGKILL)
        assert crew.wait(2 * PATIENCE_S) == [1] * WORKERS, crew.exited().cause
    finally:
        crew.end()
    for worker in range(WORKERS):
        told = crew.points_file(worker)
        assert [told[point][0] for point in range(4)] == ["passed", "passed", "failed", "passed"]
        assert "worker 1 was killed by SIGKILL" in told[HELD][1]
        assert [body.first_point for body in crew.bodies(Started, worker)] == [0, 1]
    files = sorted((tmp_path / "run" / "results").glob("samples-a1-*.parquet"))
    samples = pd.concat([pd.read_parquet(file) for file in files])
    whole = list(range(REPEATS))
    assert done(samples) == {0: whole, 1: whole, HELD: [0], 3: whole}, "of the one that failed, what was done"


def test_an_attempt_that_is_taken_away_counts_for_what_it_had_finished(
    tmp_path: Path, held: Path, home: Path
) -> None:
    folder = tmp_path / "suite"
    folder.mkdir()
    shutil.copy(Path(__file__).with_name("turner.py"), folder)
    suite = lay(folder, held, "turner")

    def start(*words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "flows.cli.main", "run", *words, "--direct"],
            cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    with start(str(suite), "--run-id", "turns", "--workers", "2", "--devices-per-worker", "1") as first:
        wait_for(lambda: all_held(held) or first.poll() is not None)
        for process in labelled(f"{LEASE_VARIABLE}=".encode()):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it ended meanwhile
                if f"{home}".encode() in Path(f"/proc/{process.pid}/cmdline").read_bytes():
                    os.kill(process.pid, signal.SIGTERM)
        said, _ = first.communicate(timeout=PATIENCE_S)
        assert first.returncode != 0, said
    with start("--resume", "turns") as second:
        said, _ = second.communicate(timeout=PATIENCE_S)
        assert second.returncode == 0, said
    points: list[dict[str, Any]] = json.loads((home / "runs/turns/points.json").read_text())["points"]
    assert [(one["status"], one["attempt"]) for one in points] == [
        ("passed", 1), ("passed", 2), ("passed", 2), ("passed", 2)
    ]  # fmt: skip
    samples = pd.read_parquet(home / "runs/turns/samples.parquet")
    counting = samples[
        samples.attempt == samples.point.map({n: one["attempt"] for n, one in enumerate(points)})
    ]
    assert done(counting) == {point: list(range(REPEATS)) for point in range(4)}
    early = samples[(samples.attempt == 1) & (samples.point > 0)]
    assert done(early) == {1: [0, 1], 2: [0], 3: [0]}, "what was measured is kept, and counts for nothing"
