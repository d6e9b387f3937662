"""What ends one supervisor before its suite is over, what it says then, and that nothing is measured twice."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from runtime.contract.job import Owner
from runtime.contract.process import started_at
from runtime.contract.progress import (
    Exited,
    Log,
    PointPhase,
    Started,
    WorkerExited,
)
from tests.runtime.supervised import Crew, Make
from tests.waiting import PATIENCE_S, until


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_supervisor_told_to_stop_ends_everything(make: Make, number: signal.Signals) -> None:
    crew = make(do={"0.1": "ignore_term"}, job={"grace_s": 1.0}).start()
    # What a worker prints and what it reports come by different ways.
    until(lambda: crew.says("ignoring SIGTERM") and any(one.point == 1 for one in crew.bodies(PointPhase)))
    crew.started[0].send_signal(number)
    assert crew.wait() == [130]
    assert crew.exited() == Exited(130, f"told to stop ({number.name})")
    assert crew.points_file()[1] == ("not_run", f"told to stop ({number.name})")
    assert crew.points_file()[2][0] == "not_run"
    crew.nothing_left()


def test_a_worker_gets_its_grace(make: Make) -> None:
    crew = make(do={"0.1": "leave_at_term"}, job={"grace_s": 20.0}).start()
    until(lambda: crew.says("waiting for SIGTERM"))
    crew.started[0].terminate()
    assert crew.wait() == [130]
    assert crew.bodies(WorkerExited)[0].code == 99


def test_a_second_signal_takes_the_grace_away(make: Make) -> None:
    crew = make(do={"0.1": "ignore_term"}, job={"grace_s": 600.0}).start()
    until(lambda: crew.says("ignoring SIGTERM"))
    crew.started[0].terminate()
    with pytest.raises(subprocess.TimeoutExpired):
        crew.started[0].wait(1.0)
    crew.started[0].terminate()
    assert crew.wait() == [130]


def test_who_is_told_to_stop_says_why_first_and_has_ended_before_it_would_be_killed(make: Make) -> None:
    stalls = {"STAND_IN_STALLS": "runtime.supervision.points,runtime.results_io"}
    crew = make(do={"0.1": "ignore_term"}, job={"grace_s": 0.5, "env": stalls}).start()
    until(lambda: crew.says("ignoring SIGTERM"))
    crew.started[0].terminate()
    until(lambda: crew.says("it ends: told to stop (SIGTERM)"))
    assert crew.started[0].poll() is None, "all the rest comes after the cause"
    assert crew.wait() == [130]
    assert "sealing the results took longer" in crew.exited().cause
    began = next(one.at for one in crew.records() if isinstance(one.body, Log) and "it ends" in one.body.text)
    assert crew.records()[-1].at - began < 60, "what stalls would take ten minutes"
    journal = (crew.folder / "w0" / "journal.jsonl").read_text()
    assert '"point": 1' in journal and "told to stop" in journal, "what is known is written down"
    crew.nothing_left()


def test_a_killed_supervisor_takes_its_worker_along(make: Make) -> None:
    crew = make(do={"0.0": "detach", "0.1": "hang"}).start()
    until(lambda: len(crew.bodies(PointPhase)) == 3)
    crew.started[0].kill()
    crew.wait()
    crew.nothing_left()


def test_renewals_that_stop_end_everything(make: Make, tmp_path: Path) -> None:
    renewal = tmp_path / "renewal"
    for lease_s in (2.0, 4.0, 8.0, 16.0):
        renewal.touch()
        crew = make(do={"0.1": "hang"}, job={"renewal_file": str(renewal), "lease_s": lease_s}).start()
        if longest_pause_of_renewals(crew, renewal, lease_s) < 0.7 * lease_s:
            break
        crew.end()  # whoever renews was late himself: that says nothing
    assert crew.started[0].poll() is None
    assert crew.wait() == [3]
    assert crew.exited().cause.startswith(
        f"the lease was not renewed for {lease_s:g} s: nobody touched {renewal}"
    )
    crew.nothing_left()


def longest_pause_of_renewals(crew: Crew, renewal: Path, lease_s: float) -> float:
    """Renews for longer than a lease lasts, or until the supervisor ends; returns its longest pause, seconds."""
    longest, last, began = 0.0, time.monotonic(), 0.0
    for n in itertools.count():
        os.utime(renewal, (n, n))  # a clock that is wrong by half a century renews as well
        now = time.monotonic()
        longest, last = max(longest, now - last), now
        if not began and crew.path().exists() and len(crew.bodies(PointPhase)) == 3:
            began = now
        if crew.started[0].poll() is not None or (began and now - began > 1.5 * lease_s):
            break
        time.sleep(0.05)
    return longest


def test_an_owner_that_goes_ends_everything(make: Make) -> None:
    owner = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    began = started_at(owner.pid)
    assert began
    crew = make(do={"0.1": "hang"}, job={"owner": Owner(owner.pid, began)}).start()
    until(lambda: len(crew.bodies(PointPhase)) == 3)
    owner.kill()
    owner.wait()
    assert crew.wait() == [3]
    assert crew.exited().cause == f"the process that owns this run (pid {owner.pid}) is gone"
    crew.nothing_left()


def test_another_process_with_the_owners_pid_is_not_the_owner(make: Make) -> None:
    began = started_at(os.getpid())
    assert began
    crew = make(do={"0.1": "hang"}, job={"owner": Owner(os.getpid(), began - 1)}).start()
    assert crew.wait() == [3]


def test_a_second_supervisor_of_the_same_attempt_is_refused(make: Make) -> None:
    crew = make(do={"0.1": "hang"}).start()
    until(lambda: len(crew.bodies(PointPhase)) == 3)
    second = crew.start_one(next(crew.jobs()))
    assert second.wait(PATIENCE_S) == 3
    assert "runs already" in (crew.folder / "supervisor0.log").read_text()
    assert crew.started[0].poll() is None


def test_an_attempt_that_has_ended_stays_ended(make: Make) -> None:
    crew = make(do={"0.1": "crash"}).start()
    assert crew.wait() == [1]
    before = len(crew.records())
    assert crew.start_one(next(crew.jobs())).wait(PATIENCE_S) == 1
    assert len(crew.records()) == before


def test_an_attempt_whose_supervisor_was_killed_is_not_measured_again(make: Make) -> None:
    crew = make(do={"0.1": "hang"}).start()
    until(lambda: len(crew.bodies(PointPhase)) == 3)
    crew.started[0].kill()
    crew.wait()
    crew.nothing_left()
    with crew.path().open("ab") as stream:
        stream.write(b'{"seq":99,"at":1')  # it was in the middle of a line
    assert crew.start_one(next(crew.jobs())).wait(PATIENCE_S) == 3
    cause = "the supervisor of this attempt was killed"
    assert crew.exited() == Exited(3, cause)
    assert crew.points_file() == {0: ("passed", ""), 1: ("not_run", cause), 2: ("not_run", cause)}
    assert len(crew.bodies(Started)) == 1
