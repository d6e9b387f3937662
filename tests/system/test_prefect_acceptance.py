"""An acceptance through a real Prefect server: its runs are flow runs, and a retry goes on where it was."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tasks.leases.lease import State
from tests.system.conftest import with_venvs
from tests.system.prefect_station import PATIENCE_S, Station, wait_for

pytestmark = pytest.mark.system

OPTIONS = {
    "train_steps": 30,
    "save_interval_steps": 10,
    "layers": 2,
    "width": 16,
    "step_s": 0.25,
    "max_to_keep": 9,
}
LISTENS = """\
import socket, sys, time
one = socket.create_server(("127.0.0.1", int(sys.argv[1])))
time.sleep(3600)
"""


@pytest.fixture
def station(tmp_path: Path, venvs: Path) -> Iterator[Station]:
    (tmp_path / "station").mkdir()
    up = Station(with_venvs(tmp_path / "station", venvs))
    yield up
    up.end_commands()
    up.close()


def _acceptance(folder: Path) -> tuple[Path, Path]:
    """Writes an acceptance beside a program that ends at once; returns its file, and that program's."""
    folder.mkdir()
    program = folder / "beside.py"
    program.write_text("raise SystemExit(1)\n")
    training = {"generator": "runtime.benchmarks.training.Training", "options": OPTIONS}
    beside = {"name": "beside", "command": [sys.executable, str(program), "{port}"]}
    content = {
        "name": "w",
        "target": "./one.yaml",
        "training": "./t.yaml",
        "output": "./runs",
        "checkpoints": 1,
        "reference": False,
        "variants": [{"name": "none"}, {"name": "beside", "sidecar": beside}],
    }
    (folder / "t.yaml").write_text(yaml.safe_dump({"suite_name": "T", "benchmarks": [training]}))
    (folder / "one.yaml").write_text(f"kind: local\nworkers: 1\npython: {sys.executable}\n")
    (folder / "a.yaml").write_text(yaml.safe_dump(content))
    return folder / "a.yaml", program


def test_a_retry_makes_what_failed_and_nothing_twice(station: Station, tmp_path: Path) -> None:
    file, program = _acceptance(tmp_path / "place")
    command = station.command("acceptance", str(file), "--id", "x")
    told, _ = command.communicate(timeout=PATIENCE_S)
    assert command.returncode == 3, told
    assert "none · 1: passed" in told and "beside · 1: not run" in told and "/runs/flow-run/" in told
    [acceptance] = [one for one in _flow_runs(station) if one["name"] == "a x"]
    assert acceptance["state"]["type"] == "FAILED"
    assert acceptance["state"]["message"].startswith("INFRASTRUCTURE: beside · 1: not run: ")
    assert station.flow_run("w-x-none-1")["state"]["name"] == "Completed", "each run is a flow run of its own"

    program.write_text(LISTENS)
    retry = {"state": {"type": "SCHEDULED", "name": "AwaitingRetry"}, "force": False}
    station.call(f"flow_runs/{acceptance['id']}/set_state", retry)
    wait_for(lambda: station.read(f"flow_runs/{acceptance['id']}")["state"]["type"] == "COMPLETED")
    assert station.flow_run("w-x-none-1")["run_count"] == 1
    assert len([one for one in _flow_runs(station) if one["parameters"].get("run_id") == "w-x-none-1"]) == 1
    artifacts = {one["key"]: one["data"] for one in station.call("artifacts/latest/filter")}
    assert "goes on from the newest complete checkpoint: yes" in artifacts["acceptance-w"]
    assert (
        '"run": "beside' in artifacts["acceptance-runs-w"] and "not_run" not in artifacts["acceptance-runs-w"]
    )
    ran = {"flow_runs": {"id": {"any_": [acceptance["id"]]}}}
    names = {one["name"] for one in station.call("task_runs/filter", ran)}
    assert names == {"none · 1", "beside · 1", "none · 1 (attempt 2)", "beside · 1 (attempt 2)"}
    for run_id in ("w-x-none-1", "w-x-beside-1"):
        leases = station.leases(run_id)
        assert leases and all(one.state is State.GONE for one in leases)


def _flow_runs(station: Station) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = station.call("flow_runs/filter", {"sort": "ID_DESC", "limit": 200})
    return found
