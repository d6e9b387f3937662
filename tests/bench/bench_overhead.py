"""What `slicebench run` costs beside the workers' own time, against a flow that does nothing run the same way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path

from tests.bench.bars import Bar, bar
from tests.system.prefect_station import ROOT, Station, wait_for

ROUNDS = 5
"""Interleaved, so that both sides see the same weather."""

SUITE = ("quickstart", "--set", "num_repeats=2")


def measure() -> list[Bar]:
    """Returns both bars: without a server, and through the deployment of one."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        return [_without(Path(scratch) / "without"), _through(Path(scratch) / "through")]


def _without(home: Path) -> Bar:
    home.mkdir()
    environment = _environment(home)
    _run(environment, "--no-server")  # builds the venv and migrates the database
    _timed([sys.executable, "tests/bench/empty_flow.py"], environment)
    ours, empty = [], []
    for _ in range(ROUNDS):
        empty.append(_timed([sys.executable, "tests/bench/empty_flow.py"], environment))
        ours.append(_run(environment, "--no-server"))
    return bar("slicebench run less workers / empty ephemeral flow", ours, empty, at_most=1.2)


def _through(home: Path) -> Bar:
    home.mkdir()
    station = Station(home)
    try:
        deployment = _deploy_empty(station)
        _run(station.environment)
        _empty_run(station, deployment)
        ours, empty = [], []
        for _ in range(ROUNDS):
            empty.append(_empty_run(station, deployment))
            ours.append(_run(station.environment))
    finally:
        station.close()
    ours = [seconds - 1.0 for seconds in ours]
    return bar("slicebench run through a server less workers and 1 s / empty flow", ours, empty, at_most=1.3)


def _environment(home: Path) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    return clean | {
        "SLICEBENCH_HOME": str(home),
        "PYTHONPATH": str(ROOT),
        "PREFECT_HOME": str(home / "empty"),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
        "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    }


def _timed(command: list[str], environment: dict[str, str]) -> float:
    begin = time.monotonic()
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return time.monotonic() - begin


def _run(environment: dict[str, str], *words: str) -> float:
    """Returns the seconds of a run less those between the start of its workers and their end."""
    output = Path(environment["SLICEBENCH_HOME"]) / "runs"
    command = [sys.executable, "-m", "flows.cli.main", "run", *SUITE, "--json", *words]
    begin = time.monotonic()
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    total = time.monotonic() - begin
    assert done.returncode == 0, done.stdout + done.stderr
    log = (output / json.loads(done.stdout)["run_id"] / "run.log").read_text().splitlines()
    started = next(line for line in log if "session 1 started" in line)
    ended = next(line for line in log if "attempt 1 succeeded" in line)
    return total - (_at(ended) - _at(started))


def _at(line: str) -> float:
    return datetime.fromisoformat(line.partition(" ")[0]).timestamp()


def _deploy_empty(station: Station) -> str:
    settings = {"PREFECT_API_URL": str(station.http.base_url), "PREFECT_API_AUTH_STRING": station.auth}
    words = ["deploy", "tests/bench/empty_flow.py:empty", "--name", "bench", "--pool", "slicebench"]
    words += ["--job-variable", json.dumps({"working_dir": str(ROOT)})]
    subprocess.run(
        [sys.executable, "-m", "prefect", "--no-prompt", *words],
        cwd=ROOT, env=station.environment | settings, check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    return str(station.http.get("deployments/name/empty/bench").json()["id"])


def _empty_run(station: Station, deployment: str) -> float:
    begin = time.monotonic()
    flow_run = station.call(f"deployments/{deployment}/create_flow_run")["id"]
    wait_for(lambda: station.http.get(f"flow_runs/{flow_run}").json()["state"]["type"] == "COMPLETED", 120)
    return time.monotonic() - begin
