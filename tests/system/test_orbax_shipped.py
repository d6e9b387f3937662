"""Orbax's own configs run unchanged on this machine: what fits the target passes, what does not is named."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from flows.lease import hold
from tasks.cloud.storage import open_folder
from tasks.config.request import RunRequest
from tasks.history.reading import load_points
from tasks.history.results import Results
from tasks.stages.build import build
from tasks.stages.collect import collect
from tasks.stages.prepare import begin, prepare
from tasks.stages.provision import provision
from tasks.stages.run import run_workload
from tasks.stages.teardown import teardown
from tasks.stages.upload import upload
from tests.system.prefect_station import PATIENCE_S, ROOT

pytestmark = pytest.mark.system


def shipped(name: str) -> str:
    found = importlib.util.find_spec("orbax.checkpoint")
    assert found is not None and found.origin is not None
    return str(Path(found.origin).parent / f"_src/testing/benchmarks/configs/{name}.yaml")


def assert_passed(results: Results, devices: int, passed: int, workers: int = 2) -> None:
    assert [point.status for point in results.points] == ["passed"] * passed, results.points
    assert {point.implementation for point in results.points} == {"native"}
    assert [len(point.workers) for point in results.points] == [workers] * passed
    assert results.manifest["devices"]["count"] == devices
    assert results.troubles == []


def test_the_command_runs_one_and_names_what_does_not_fit(tmp_path: Path) -> None:
    words = ["run", shipped("pytree_checkpoint_benchmark"), "--target", "local", "--no-server", "--json"]
    ended = subprocess.run(
        [sys.executable, "-m", "flows.cli.main", *words, "--output", str(tmp_path), "--run-id", "shipped"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-4000:]
    told, folder = json.loads(ended.stdout), tmp_path / "shipped"
    assert (told["verdict"], told["causes"]) == ("NO_BASELINE", [])
    (left_out,) = told["left_out"]
    assert left_out.startswith("2 of 4 benchmarks left out (PyTreeCheckpointBenchmark[")
    assert left_out.endswith("mesh data 2 x tensor 2 takes 4 devices, the target has 16")
    # The command tells it once; the workers, which see for themselves, tell it in their logs.
    assert ended.stderr.count("left out") == 1
    assert len(re.findall(r"^\S+ warning: .* left out", (folder / "run.log").read_text(), re.MULTILINE)) == 1
    assert "2 of 4 benchmarks left out" in (folder / "report.html").read_text()
    results = load_points(open_folder(str(folder)))
    assert results is not None
    assert_passed(results, devices=16, passed=2)


@pytest.mark.parametrize(
    ("name", "workers", "devices", "passed", "left_out"),
    [
        ("array_handler_benchmark", 2, 8, 20, ["warning: 20 of 40 benchmarks left out"]),
        ("checkpoint_manager_benchmark", 2, 4, 2, []),
        ("checkpoint_policy_benchmark", 2, 4, 3, ["warning: 3 of 6 benchmarks left out"]),
        # Broken off on several workers, a save may leave one waiting for the others for ever (docs/benchmarks.md).
        ("v0_checkpointer_cancel_benchmark", 1, 4, 2, ["warning: 2 of 4 benchmarks left out"]),
        ("v1_checkpointer_cancel_benchmark", 1, 4, 2, ["warning: 2 of 4 benchmarks left out"]),
        ("emergency_checkpoint_manager_benchmark", 4, 4, 1, ["warning: 1 of 5 benchmarks left out"] * 4),
        ("p2p_checkpoint_manager_benchmark", 4, 4, 1, ["warning: 1 of 5 benchmarks left out"] * 4),
        ("multihost_dispatchers_benchmark", 4, 4, 4, ["warning: 4 of 8 benchmarks left out"]),
        ("multislice_broadcast_benchmark", 4, 4, 1, ["warning: 1 of 2 benchmarks left out"]),
        (
            "single_replica_benchmark",
            4,
            4,
            1,
            ["warning: 6 of 12 benchmarks left out", *["warning: 1 of 12 benchmarks left out"] * 5],
        ),
    ],
)
def test_the_stages_run_the_others(
    tmp_path: Path, name: str, workers: int, devices: int, passed: int, left_out: list[str]
) -> None:
    said: list[str] = []
    request = RunRequest(
        suite=shipped(name),
        target="local",
        output=str(tmp_path),
        run_id="shipped",
        workers=workers,
        devices_per_worker=devices // workers,
    )
    run = prepare(request, said.append)
    with hold(run) as lease:
        begin(run, request)
        try:
            outcome = run_workload(run, upload(run, provision(run, lease), build(run)), lease)
            results = collect(run)
        finally:
            teardown(run, lease)
    assert outcome.attempts[-1].end == "succeeded", outcome
    assert_passed(results, devices, passed, workers)
    assert [line.partition(" (")[0] for line in said if re.match("warning: .* left out", line)] == left_out
