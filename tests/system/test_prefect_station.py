"""`slicebench up` and `down`: going down cuts no run, being killed leaves nothing, and lost hosts are noticed."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import httpx
import psutil
import pytest

from flows.serving.settings import free_port
from tasks.leases.lease import State
from tests.system.conftest import with_venvs
from tests.system.prefect_station import PATIENCE_S, ROOT, Station, variable, wait_for, words

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def stations() -> Iterator[list[Station]]:
    """All that were started. Only one is ever up."""
    started: list[Station] = []
    yield started
    for station in started:
        if station.up:
            station.close()


@pytest.fixture
def station(
    stations: list[Station], tmp_path_factory: pytest.TempPathFactory, venvs: Path
) -> Iterator[Station]:
    """One that is up: that of the test before, or another where that test took it down."""
    if not stations or not stations[-1].up:
        stations.append(Station(with_venvs(tmp_path_factory.mktemp("station"), venvs)))
    station = stations[-1]
    yield station
    station.end_commands()


def started_by(station: Station) -> list[psutil.Process]:
    """Returns every process that works for the station, runs excepted."""
    found = []
    for process in psutil.process_iter():
        if variable(process, "PREFECT_HOME") == str(station.home / "prefect" / "server"):
            found.append(process)
    return found


def server_of(station: Station) -> psutil.Process:
    found = [one for one in started_by(station) if {"server", "start"} <= set(words(one))]
    assert len(found) == 1, found
    return found[0]


def answers(station: Station) -> bool:
    try:
        return station.http.get("health").is_success
    except httpx.TransportError:
        return False


def test_going_down_waits_for_what_runs_and_then_leaves_nothing(station: Station) -> None:
    command = station.long_run("last")
    down = station.command("down")
    wait_for(lambda: "waiting for patient on local" in station.log.read_text())
    station.let_go("last")
    told, _ = command.communicate(timeout=PATIENCE_S)
    assert command.returncode == 0, told
    assert down.wait(PATIENCE_S) == 0
    assert station.process.wait(PATIENCE_S) == 0
    assert started_by(station) == []
    assert not (station.home / "prefect" / "up.json").exists()


def run_of_others(station: Station) -> str:
    """Makes a flow run such as others have on a server they share: running, heard of once, silent since."""
    flow = station.call("flows/", {"name": "benchmark"})["id"]
    body = {"flow_id": flow, "name": "of others", "state": {"type": "RUNNING", "name": "Running"}}
    flow_run = str(station.call("flow_runs/", body)["id"])
    beat = {
        "occurred": datetime.now(UTC).isoformat(),
        "event": "prefect.flow-run.heartbeat",
        "resource": {"prefect.resource.id": f"prefect.flow-run.{flow_run}"},
        "related": [{"prefect.resource.id": f"prefect.flow.{flow}", "prefect.resource.role": "flow"}],
        "id": str(uuid4()),
    }
    station.call("events", [beat])
    return flow_run


def state_in_database(station: Station, flow_run: str) -> str:
    """Returns it, the server being up or not."""
    with sqlite3.connect(station.home / "prefect" / "server" / "prefect.db") as database:
        (found,) = database.execute("select state_type from flow_run where id = ?", (flow_run,))
    return str(found[0])


def test_down_now_cancels_what_runs_which_gives_everything_back(station: Station) -> None:
    of_others = run_of_others(station)
    command = station.long_run("cut")
    down = station.command("down", "--now")
    told, _ = command.communicate(timeout=PATIENCE_S)
    assert command.returncode == 130, told
    assert down.wait(PATIENCE_S) == 0
    # Prefect kills a flow that takes half a minute for it: a hook does the rest then.
    wait_for(lambda: [lease.state for lease in station.leases("cut")] == [State.GONE])
    assert station.workload("cut") == []
    assert started_by(station) == []
    assert state_in_database(station, of_others) == "RUNNING"


def test_a_second_up_on_the_same_database_is_refused_and_the_first_lives_on(
    station: Station, tmp_path: Path
) -> None:
    database = station.home / "prefect" / "server" / "prefect.db"
    more = {
        "SLICEBENCH_HOME": str(tmp_path / "another"),
        "PREFECT_API_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{database}",
    }
    second = subprocess.run(
        [sys.executable, "-m", "flows.cli.main", "up", "--port", str(free_port())],
        cwd=ROOT, env=station.environment | more, capture_output=True, text=True, timeout=PATIENCE_S,
    )  # fmt: skip
    assert second.returncode == 2, second.stderr
    assert "another slicebench up works on this database: its worker slicebench-on-" in second.stderr
    assert not (tmp_path / "another" / "prefect" / "up.json").exists()
    assert answers(station)


def test_what_a_killed_up_left_is_cleared_by_the_next(station: Station, stations: list[Station]) -> None:
    station.process.kill()
    station.process.wait()
    assert started_by(station), "killing it should have left its children"
    stations.append(again := Station(station.home))
    assert "left by an earlier slicebench up" in again.log.read_text()
    assert again.auth == station.auth
    # A server that starts a process is two of that name for a moment.
    wait_for(lambda: server_of(again))


def test_a_run_whose_host_is_lost_is_called_crashed_and_its_things_go_back(station: Station) -> None:
    of_others = run_of_others(station)
    # A lost host looks like this from the server: no worker and no flow that could say anything.
    command = station.long_run("lost")
    worker, flow = station.prefect_worker("slicebench"), station.flow_process("lost")
    worker.suspend()
    flow.kill()
    worker.kill()
    wait_for(lambda: station.state("lost") == "Crashed")
    wait_for(lambda: [lease.state for lease in station.leases("lost")] == [State.GONE])
    assert station.workload("lost") == []
    assert command.wait(PATIENCE_S) == 3
    # The server's own word, not the worker's: that one was dead.
    assert "not heard for" in station.flow_run("lost")["state"]["message"]
    # Silent for longer, but not ours to judge.
    assert state_in_database(station, of_others) == "RUNNING"


def test_a_worker_that_ends_is_replaced(station: Station) -> None:
    first = station.prefect_worker("slicebench-reaper")
    os.kill(first.pid, signal.SIGKILL)
    second = wait_for(lambda: station.prefect_worker("slicebench-reaper").pid != first.pid and station)
    assert "starting another" in second.log.read_text()


def test_a_server_that_is_killed_is_started_again_and_what_runs_lives_on(station: Station) -> None:
    command = station.long_run("survivor")
    wait_for(lambda: server_of(station)).kill()
    wait_for(lambda: "server has ended" in station.log.read_text())
    wait_for(lambda: answers(station))
    # A server that was away for long takes its own silence for the run's.
    assert station.state("survivor") in ("Running", "Crashed")
    station.let_go("survivor")
    told, _ = command.communicate(timeout=PATIENCE_S)
    assert command.returncode == 0, told
    assert "does not answer" in told and "the run goes on by itself" in told
    assert "the Prefect server is back" in told
    wait_for(lambda: station.state("survivor") == "Completed")
    assert [lease.state for lease in station.leases("survivor")] == [State.GONE]
