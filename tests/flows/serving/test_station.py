"""What `slicebench up` does when a part of it ends: starts it again, unless it will not stay up, and cuts no run."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from flows.cli.up import up
from flows.server import Server
from flows.serving import place
from flows.serving.settings import free_port
from flows.serving.station import LATELY_S, LIVES, Station, StaysDown
from runtime.contract.errors import ExitCode
from tests.waiting import until

SLEEPER = "tests.flows.serving.sleeper"


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def station(told: list[str]) -> Iterator[Station]:
    """One whose server and worker sleep; the worker has a process, as it has for a run."""
    station = Station(Server("http://127.0.0.1:1/api", "test", "a:b"), {}, told.append)
    station.start("server", SLEEPER, "0")
    station.start("worker-p", SLEEPER, "1")
    until(lambda: all("asleep" in child.log.read_text() for child in station.running.values()))
    (run,) = process(station, "worker-p").children()
    yield station
    station.stop()
    if run.is_running():
        run.kill()


def process(station: Station, what: str) -> psutil.Process:
    return psutil.Process(station.running[what].process.pid)


def end(station: Station, what: str) -> None:
    process(station, what).kill()
    station.running[what].handle.wait()


@pytest.mark.parametrize(("ended", "other"), [("server", "worker-p"), ("worker-p", "server")])
def test_what_has_ended_is_started_again_and_the_rest_left_alone(
    station: Station, told: list[str], ended: str, other: str
) -> None:
    before = dict(station.running)
    end(station, ended)
    station.look()
    assert station.running[other] is before[other] and not before[other].ended
    assert station.running[ended] is not before[ended] and not station.running[ended].ended
    assert station.running[ended].handle.args == before[ended].handle.args
    up_now = place.read_up()
    assert up_now is not None and station.running[ended].process in up_now.children
    (line,) = told
    assert line.startswith(f"{ended} has ended (see ") and line.endswith("starting another")
    assert "asleep" in Path(line.split("see ")[1].split(")")[0]).read_text(), "the log of the life that ended"
    station.look()
    assert len(told) == 1


def test_what_ends_again_and_again_is_given_up_with_its_last_words(station: Station) -> None:
    for _ in range(LIVES):
        end(station, "server")
        station.look()
    until(lambda: "asleep" in station.running["server"].log.read_text())
    end(station, "server")
    with pytest.raises(StaysDown, match=rf"(?s)server has ended {LIVES + 1} times in 10 minutes.*\nasleep"):
        station.look()


def test_what_ends_now_and_then_is_started_for_ever(station: Station) -> None:
    station.ends["server"] = [time.monotonic() - LATELY_S - 1.0] * LIVES
    end(station, "server")
    station.look()
    assert not station.running["server"].ended


def test_a_station_that_gives_up_waits_for_runs_first(station: Station, told: list[str]) -> None:
    (run,) = process(station, "worker-p").children()
    slept = []

    def sleep(seconds: float) -> None:
        assert run.is_running()
        slept.append(seconds)
        if len(slept) == 2:
            run.kill()
            end(station, "worker-p")  # which never waited for it: as a zombie it would still count

    station.outlast_runs(lambda: False, sleep)
    assert len(slept) == 2
    assert told[0].startswith("waiting for 1 run to end")


def test_whoever_is_impatient_does_not_wait_for_runs(station: Station) -> None:
    def sleep(seconds: float) -> None:
        raise AssertionError("it waited")

    station.outlast_runs(lambda: True, sleep)


def test_up_goes_down_by_itself_only_once_no_run_is_cut(
    station: Station, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def look() -> None:
        raise StaysDown("server has ended 6 times")

    stopped: list[bool] = []
    monkeypatch.setattr(station, "look", look)
    monkeypatch.setattr(station, "outlast_runs", lambda impatient: stopped.append(station.running == {}))
    monkeypatch.setattr("flows.serving.station.raise_up", lambda port, tell, stop_wanted: station)
    monkeypatch.setattr("flows.cli.up._welcome", lambda station: None)
    handlers = {
        number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
    }
    place.forget_up()
    try:
        assert up(port=free_port()) == ExitCode.INFRASTRUCTURE
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert stopped == [False], "it stopped the workers before their runs had ended"
    assert station.running == {}
    assert "server has ended 6 times" in capsys.readouterr().err
