"""Pull a plug of Prefect at every stage of a run: flow, worker, server, `up`, the whole host. Nothing is left."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from runtime.contract.names import STAGES_FOLDER
from tasks.history.verdict import VERDICTS_FILE
from tasks.leases.lease import State
from tasks.stages.files import REPORT_FILE, REQUEST_FILE
from tests.chaos.driver import sample, soon_enough, took_s
from tests.system.conftest import venvs, with_venvs
from tests.system.prefect_station import PATIENCE_S, Station, wait_for
from tests.system.suites import lay_suite
from tests.tasks.targets.local_runs import STANDIN

__all__ = ["venvs"]
pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1800)]


@dataclass(frozen=True)
class Point:
    """What is done to a run once it has got through a stage, and whether it should live through that."""

    deed: str
    moment: str
    lives: bool = False

    def __str__(self) -> str:
        return f"{self.deed} at {self.moment}"


LATE = ("run", "collect", "teardown", "compare", "report")
"""Stages after which nothing runs on workers any more. Each is through, and the next one has begun."""

MOMENTS = ("begun", "build", "provision", "upload", "measuring", *LATE)
"""Stages that are through, but for the first, and for the one in which workers are at work."""

WRITTEN = {"begun": REQUEST_FILE, "compare": VERDICTS_FILE, "report": REPORT_FILE}
"""What is there once they are through, for those that leave no marker."""

SIGNALS = ("kill flow", "terminate flow", "interrupt flow")

POINTS = [
    *(Point(deed, moment) for deed in SIGNALS for moment in MOMENTS),
    *(Point("cancel", moment) for moment in ("begun", "provision", "measuring", "run")),
    *(Point("terminate worker", moment) for moment in ("provision", "measuring")),
    *(Point("kill worker", moment, lives=True) for moment in ("build", "measuring")),
    Point("kill command", "provision", lives=True),
    Point("call it cancelled", "measuring", lives=True),
    *(Point("kill server", moment, lives=True) for moment in ("upload", "measuring")),
    Point("kill up", "measuring", lives=True),
    *(Point("lose host", moment) for moment in ("build", "provision", "measuring", "collect")),
]  # fmt: skip


@dataclass(frozen=True)
class Going:
    """A run: the command that started and follows it, and the process of its flow."""

    command: subprocess.Popen[str]
    flow: psutil.Process


@pytest.fixture(scope="module")
def stations() -> Iterator[list[Station]]:
    """All that were started, the last of them in use."""
    started: list[Station] = []
    yield started
    for station in started:
        if station.up:
            station.close()


@pytest.fixture
def station(stations: list[Station], tmp_path_factory: pytest.TempPathFactory, venvs: Path) -> Station:
    """One that is up: that of the test before; or another in its place, as a person would start it again."""
    if not stations:
        stations.append(Station(with_venvs(tmp_path_factory.mktemp("station"), venvs)))
    elif not stations[-1].up:
        stations.append(Station(stations[-1].home))
    return stations[-1]


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """A process that looks like one of ours, with a label, but of another ledger."""
    process = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(7200)", str(STANDIN), "job-a1-w0000.json"],
        env={**os.environ, "SLICEBENCH_LEASE": "run-0-e1", "SLICEBENCH_LEDGER_ID": "another"},
        start_new_session=True,
    )
    yield process
    process.kill()
    process.wait()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Draws points by the seed alone: each process of the tests has the same, and who runs again what failed."""
    points = [(at, str(point)) for at, point in enumerate(POINTS)]
    chosen = sample(points, seed=metafunc.config.getoption("randomly_seed", 0))
    metafunc.parametrize("at", [at for at, _ in chosen], ids=[name for _, name in chosen])


def test_nothing_is_left(station: Station, bystander: subprocess.Popen[bytes], at: int) -> None:
    point, run_id = POINTS[at], f"run-{at}"
    going = begin(station, run_id, point.moment)
    DEEDS[point.deed](station, run_id, going)
    if point.deed in SIGNALS:
        begun = time.monotonic()
        wait_for(lambda: reap(station) is not None and not station.workload(run_id))
        assert soon_enough([took_s(begun)])
    if point.lives:
        assert reap(station, dry_run=True) == [], "a run that lives is not the reaper's"
        station.let_go(run_id)
        wait_for(lambda: outcome(station, run_id).get("exit_code") == 0)
    # The run's own folder tells how it ended: last of all, where the run itself writes that down.
    wait_for(
        lambda: (
            reap(station) == [] and nothing_left(station, run_id) and "exit_code" in outcome(station, run_id)
        )
    )
    if not point.lives and point.moment not in LATE:
        assert outcome(station, run_id)["exit_code"] != 0
        assert outcome(station, run_id)["causes"]
    assert bystander.poll() is None
    if going.command.poll() is None:  # it waits for Prefect's word, which comes late
        going.command.kill()
    going.command.communicate(timeout=PATIENCE_S)


def begin(station: Station, run_id: str, moment: str) -> Going:
    """Starts a run and returns its processes once the run has come to that moment."""
    folder = station.home / "suites" / run_id
    suite = lay_suite(folder, "patient", go=str(folder / "go"))
    command = station.begin(run_id, str(suite), "--workers", "1", "--devices-per-worker", "1")

    def come_to(moment: str, look_every_s: float = 0.2) -> None:
        wait_for(
            lambda: reached(station, run_id, moment) or command.poll() is not None, look_every_s=look_every_s
        )
        assert reached(station, run_id, moment), command.communicate()[0]

    come_to("begun")
    flow = wait_for(lambda: station.flow_process(run_id))
    if moment in LATE:
        come_to("measuring")
        station.let_go(run_id)
    # Late stages are short; the process is known, so that what is done to it comes within its next stage.
    come_to(moment, look_every_s=0.01)
    return Going(command, flow)


def reached(station: Station, run_id: str, moment: str) -> bool:
    folder = station.folder(run_id)
    if moment == "measuring":
        return station.measuring(run_id)
    return (folder / WRITTEN.get(moment, f"{STAGES_FOLDER}/{moment}.json")).exists()


def outcome(station: Station, run_id: str) -> Mapping[str, object]:
    try:
        return dict(json.loads((station.folder(run_id) / "outcome.json").read_bytes()))
    except FileNotFoundError:
        return {}


def nothing_left(station: Station, run_id: str) -> bool:
    leases = station.leases(run_id)
    return bool(leases) and all(one.state is State.GONE for one in leases) and not station.workload(run_id)


def reap(station: Station, dry_run: bool = False) -> list[str]:
    """Lets the reaper that needs no Prefect look once; returns the leases that it had to do something about."""
    done = subprocess.run(
        [sys.executable, "-m", "flows.cli.main", "reap", "--json", *(["--dry-run"] if dry_run else [])],
        cwd=Path(__file__).parents[2], env=station.environment, capture_output=True, text=True, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [one["lease_id"] for one in json.loads(done.stdout)["findings"] if one["did"] != "kept"]


Deed = Callable[[Station, str, Going], None]


def to_flow(number: signal.Signals) -> Deed:
    def deed(station: Station, run_id: str, going: Going) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):  # after its last stages it is soon over
            going.flow.send_signal(number)

    return deed


def to_worker(number: signal.Signals) -> Deed:
    def deed(station: Station, run_id: str, going: Going) -> None:
        worker = station.prefect_worker("slicebench")
        worker.send_signal(number)
        worker.wait(PATIENCE_S)

    return deed


def call_it(state: str, name: str) -> Deed:
    """Sets the state of the flow run, as its page in the UI does."""

    def deed(station: Station, run_id: str, going: Going) -> None:
        flow_run = station.flow_run(run_id)["id"]
        body = {"state": {"type": state, "name": name}, "force": True}
        assert station.call(f"flow_runs/{flow_run}/set_state", body)["status"] == "ACCEPT"

    return deed


def kill_command(station: Station, run_id: str, going: Going) -> None:
    going.command.kill()


def kill_server(station: Station, run_id: str, going: Going) -> None:
    """`up` starts another; workers and runs wait for it."""
    (server,) = servers_of(station)
    server.kill()
    wait_for(lambda: servers_of(station) not in ([], [server]))
    assert station.up


def kill_up(station: Station, run_id: str, going: Going) -> None:
    station.process.kill()
    station.process.wait()


def lose_host(station: Station, run_id: str, going: Going) -> None:
    """All that could say something is gone at once; only the workload's own processes are still there."""
    victims = [psutil.Process(station.process.pid), *children_of(station)]
    victims += [going.flow, psutil.Process(going.command.pid)]
    for act in (psutil.Process.suspend, psutil.Process.kill):
        for each in victims:
            with contextlib.suppress(psutil.NoSuchProcess):
                act(each)
    station.process.wait()


def servers_of(station: Station) -> list[psutil.Process]:
    found = []
    for one in children_of(station):
        with contextlib.suppress(psutil.Error):
            if {"server", "start"} <= set(one.cmdline()):
                found.append(one)
    return found


def children_of(station: Station) -> list[psutil.Process]:
    return psutil.Process(station.process.pid).children()


DEEDS: Mapping[str, Deed] = {
    "kill flow": to_flow(signal.SIGKILL),
    "terminate flow": to_flow(signal.SIGTERM),
    "interrupt flow": to_flow(signal.SIGINT),
    "cancel": call_it("CANCELLING", "Cancelling"),
    "terminate worker": to_worker(signal.SIGTERM),
    "kill worker": to_worker(signal.SIGKILL),
    "kill command": kill_command,
    "call it cancelled": call_it("CANCELLED", "Cancelled"),
    "kill server": kill_server,
    "kill up": kill_up,
    "lose host": lose_host,
}
