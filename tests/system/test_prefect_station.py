"""`slicebench up` and `down`: going down cuts no run, being killed leaves nothing, and lost hosts are noticed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tasks.leases.lease import State
from tests.system.prefect_station import LONG, Station, wait_for

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]


@pytest.fixture
def station(tmp_path: Path) -> Iterator[Station]:
    up = Station(tmp_path)
    yield up
    if up.process.poll() is None:
        up.close()


def started_by(station: Station) -> list[psutil.Process]:
    """Returns every process that works for the station, runs excepted."""
    found = []
    for process in psutil.process_iter():
        try:
            belongs = process.environ().get("PREFECT_HOME") == str(station.home / "prefect" / "server")
        except psutil.Error:
            continue
        if belongs and process.status() != psutil.STATUS_ZOMBIE:
            found.append(process)
    return found


def test_going_down_waits_for_what_runs_and_then_leaves_nothing(station: Station) -> None:
    command = station.command("run", "quickstart", "--run-id", "last", "--set", "num_repeats=20")
    wait_for(lambda: station.measuring("last"), 180)
    down = station.command("down")
    wait_for(lambda: "waiting for quickstart on local" in station.log.read_text(), 60)
    told, _ = command.communicate(timeout=300)
    assert command.returncode == 0, told
    assert down.wait(120) == 0
    assert station.process.wait(60) == 0
    assert started_by(station) == []
    assert not (station.home / "prefect" / "up.json").exists()


def test_down_now_cancels_what_runs_which_gives_everything_back(station: Station) -> None:
    command = station.command("run", "quickstart", "--run-id", "cut", *LONG)
    wait_for(lambda: station.measuring("cut"), 180)
    down = station.command("down", "--now")
    told, _ = command.communicate(timeout=200)
    assert command.returncode == 130, told
    assert down.wait(120) == 0
    assert [lease.state for lease in station.leases("cut")] == [State.GONE]
    assert station.workload("cut") == []
    assert started_by(station) == []


def test_what_a_killed_up_left_is_cleared_by_the_next(station: Station) -> None:
    station.process.kill()
    station.process.wait()
    assert started_by(station), "killing it should have left its children"
    again = Station(station.home)
    try:
        assert "left by an earlier slicebench up" in again.log.read_text()
        assert again.auth == station.auth
        assert len([p for p in started_by(again) if "server" in p.cmdline() and "start" in p.cmdline()]) == 1
    finally:
        again.close()
    assert started_by(again) == []


def test_a_run_whose_host_is_lost_is_called_crashed_and_its_things_go_back(station: Station) -> None:
    # A lost host looks like this from the server: no worker and no flow that could say anything.
    command = station.command("run", "quickstart", "--run-id", "lost", *LONG)
    wait_for(lambda: station.measuring("lost"), 180)
    worker, flow = station.prefect_worker("slicebench"), station.flow_process("lost")
    worker.suspend()
    flow.kill()
    worker.kill()
    wait_for(lambda: station.state("lost") == "Crashed", 240)
    wait_for(lambda: [lease.state for lease in station.leases("lost")] == [State.GONE], 120)
    assert station.workload("lost") == []
    assert command.wait(60) == 3
    # The server's own word, not the worker's: that one was dead.
    assert "not heard for" in station.flow_run("lost")["state"]["message"]


def test_a_worker_that_ends_is_replaced(station: Station) -> None:
    first = station.prefect_worker("slicebench-reaper")
    os.kill(first.pid, signal.SIGKILL)
    second = wait_for(lambda: station.prefect_worker("slicebench-reaper").pid != first.pid and station, 60)
    assert "starting another" in second.log.read_text()
