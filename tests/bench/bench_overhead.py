"""What `slicebench run` costs beside the workers' own time, against a flow that does nothing run the same way."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from tests.bench.bars import Bar, bar
from tests.bench.pace import rounds
from tests.bench.peers import bench_home
from tests.slowness import slowness
from tests.system.prefect_station import ROOT, Station, wait_for

ROUNDS = (3, 5)
"""At least and at most; interleaved, so that both sides see the same weather."""

BUDGET_S = 120.0

SUITE = ("quickstart", "--set", "num_repeats=2")

ALLOWED_S = 1.0
"""For the command itself, on a processor that is as fast as tests.slowness assumes."""

PATIENCE_S = 1200.0
"""For one run at most; the first builds the workers' venv."""

LOOK_S = 2.5
"""A worker looks for work every 5 s. How long a run happens to wait for that, on either side, is replaced by this
mean: it is the same for both, and five rounds would show little else."""


def measure() -> list[Bar]:
    """Returns both bars: without a server, and through the deployment of one."""
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as scratch:
        return [_without(_home(scratch, "without")), _through(_home(scratch, "through"))]


def _home(scratch: str, name: str) -> Path:
    """Makes a state root of its own, but for the workers' venv, which is built once for all benches."""
    home, venvs = Path(scratch) / name, bench_home() / "venvs"
    home.mkdir()
    venvs.mkdir(parents=True, exist_ok=True)
    (home / "venvs").symlink_to(venvs)
    return home


def _without(home: Path) -> Bar:
    environment = _environment(home)
    _run(environment, "--no-server")  # builds the venv and migrates the database
    _timed([sys.executable, "tests/bench/empty_flow.py"], environment)
    ours, empty = [], []
    for _ in rounds("overhead without a server", *ROUNDS, BUDGET_S):
        empty.append(_timed([sys.executable, "tests/bench/empty_flow.py"], environment))
        ours.append(_run(environment, "--no-server")[0])
    return bar("slicebench run without a server, less workers / empty flow", ours, empty, at_most=1.2)


def _through(home: Path) -> Bar:
    station = Station(home)
    try:
        deployment = _deploy_empty(station)
        _run_through(station)
        _empty_run(station, deployment)
        ours, empty, slow_by = [], [], []
        for _ in rounds("overhead through a server", *ROUNDS, BUDGET_S):
            slow_by.append(slowness())
            empty.append(_empty_run(station, deployment))
            ours.append(_run_through(station))
    finally:
        station.close()
    slow = statistics.median(slow_by)
    return bar(
        f"slicebench run through a server, less workers and 1 s × {slow:.1f} / empty flow, same deployment",
        ours, empty, allowance=ALLOWED_S * slow, at_most=1.3,
    )  # fmt: skip


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
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return time.monotonic() - begin


def _run_through(station: Station) -> float:
    seconds, run_id = _run(station.environment)
    return seconds - _waited(station, str(station.flow_run(run_id)["id"])) + LOOK_S


def _run(environment: dict[str, str], *words: str) -> tuple[float, str]:
    """Returns the seconds of a run less those between the start of its workers and their end; and its id."""
    output = Path(environment["SLICEBENCH_HOME"]) / "runs"
    command = [sys.executable, "-m", "flows.cli.main", "run", *SUITE, "--json", *words]
    begin = time.monotonic()
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE_S
    )
    total = time.monotonic() - begin
    assert done.returncode == 0, done.stdout + done.stderr
    run_id = str(json.loads(done.stdout)["run_id"])
    log = (output / run_id / "run.log").read_text().splitlines()
    started = next(line for line in log if "session 1 started" in line)
    ended = next(line for line in log if "attempt 1 succeeded" in line)
    return total - (_at(ended) - _at(started)), run_id


def _at(line: str) -> float:
    return _moment(line.partition(" ")[0])


def _moment(told: Any) -> float:
    return datetime.fromisoformat(str(told)).timestamp()


def _waited(station: Station, flow_run: str) -> float:
    """Returns how long a flow run waited until a worker looked for work."""
    states = station.http.get("flow_run_states/", params={"flow_run_id": flow_run}).json()
    first = {state["type"]: _moment(state["timestamp"]) for state in reversed(states)}
    return first["PENDING"] - first["SCHEDULED"]


def _deploy_empty(station: Station) -> str:
    """Deploys the empty flow in all as the benchmark is; returns the deployment's id."""
    content = yaml.safe_load((ROOT / "deployments" / "prefect.yaml").read_text())
    adhoc = next(one for one in content["deployments"] if one["name"] == "adhoc")
    empty = {
        "name": "bench",
        "entrypoint": "tests/bench/empty_flow.py:empty",
        "work_pool": adhoc["work_pool"],
    }
    file = station.home / "empty.yaml"
    file.write_text(yaml.safe_dump({"name": "bench", "pull": content["pull"], "deployments": [empty]}))
    settings = {"PREFECT_API_URL": str(station.http.base_url), "PREFECT_API_AUTH_STRING": station.auth}
    words = ["deploy", "--all", "--prefect-file", str(file)]
    done = subprocess.run(
        [sys.executable, "-m", "prefect", "--no-prompt", *words],
        cwd=ROOT, env=station.environment | settings | {"PWD": str(ROOT)},
        capture_output=True, text=True, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return str(station.http.get("deployments/name/empty/bench").json()["id"])


def _empty_run(station: Station, deployment: str) -> float:
    begin = time.monotonic()
    flow_run = str(station.call(f"deployments/{deployment}/create_flow_run")["id"])
    wait_for(
        lambda: station.http.get(f"flow_runs/{flow_run}").json()["state"]["type"] == "COMPLETED", PATIENCE_S
    )
    return time.monotonic() - begin - _waited(station, flow_run) + LOOK_S
