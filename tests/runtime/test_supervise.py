"""One supervisor around one worker that may misbehave: what is told and written down; that nothing is left."""

from __future__ import annotations

import itertools
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from runtime.contract.job import Deadlines, Owner
from runtime.contract.process import started_at
from runtime.contract.progress import (
    Deadline,
    Exited,
    Log,
    Operation,
    PointPhase,
    Stacks,
    Started,
    WorkerExited,
)
from runtime.supervise import Supervisor
from tests.runtime.supervised import Crew, Make
from tests.waiting import PATIENCE_S, until


def test_a_good_suite_ends_with_0(make: Make) -> None:
    crew = make().start()
    assert crew.wait() == [0]
    assert crew.exited().cause == ""
    assert [body.first_point for body in crew.bodies(Started)] == [0]
    assert len(crew.bodies(PointPhase)) == 6
    assert crew.says("stand-in of worker 0 from point 0")
    crew.nothing_left()


ENDS = {
    "crash": "worker 0 exited with code 7 in save: something went wrong in C++",
    "exit0": "worker 0 exited with code 0 in save, not through its suite",
    "kill:SIGKILL": "worker 0 was killed by SIGKILL while in save",
    "kill:SIGSEGV": "worker 0 was killed by SIGSEGV while in save",
}


def test_a_worker_that_goes_away_costs_one_point(make: Make) -> None:
    do = {f"0.{2 * n + 1}": what for n, what in enumerate(ENDS)}
    crew = make(points=2 * len(ENDS) + 1, do=do).start()
    assert crew.wait() == [1]
    assert crew.exited().cause == f"benchmark 2 of 9 (Fake) failed: {ENDS['crash']} (and 3 more)"
    failed = {2 * n + 1: ("failed", cause) for n, cause in enumerate(ENDS.values())}
    assert crew.points_file() == dict.fromkeys(range(9), ("passed", "")) | failed
    assert [body.first_point for body in crew.bodies(Started)] == [0, 2, 4, 6, 8]
    assert len(crew.bodies(WorkerExited)) == 5
    crew.nothing_left()


def test_a_failed_point_alone_does_not_end_the_worker(make: Make) -> None:
    crew = make(do={"0.0": "fail:leaf a/b differs", "0.2": "fail:disk"}).start()
    assert crew.wait() == [1]
    assert crew.exited().cause == "benchmark 1 of 3 (Fake) failed: leaf a/b differs (and 1 more)"
    assert len(crew.bodies(Started)) == 1
    assert [crew.points_file()[point][0] for point in range(3)] == ["failed", "passed", "failed"]


def test_a_worker_that_dies_before_it_joins_is_fatal(make: Make) -> None:
    crew = make(do={"0.init": "crash"}).start()
    assert crew.wait() == [3]
    assert "before it had joined the others" in crew.exited().cause
    assert "something went wrong in C++" in crew.exited().cause
    assert {point: status for point, (status, _) in crew.points_file().items()} == dict.fromkeys(
        range(3), "not_run"
    )


def test_a_worker_that_dies_after_its_last_point_is_told(make: Make) -> None:
    crew = make(do={"0.end": "kill:SIGSEGV"}).start()
    assert crew.wait() == [1]
    assert crew.exited().cause == (
        "the end of the suite failed: worker 0 was killed by SIGSEGV after its last benchmark"
    )


def test_a_python_that_cannot_be_run_is_told(make: Make) -> None:
    crew = make(job={"python": "/nowhere/python"}).start()
    assert crew.wait() == [3]
    assert "cannot run /nowhere/python: No such file or directory" in crew.exited().cause


def test_an_operation_that_hangs_or_is_stopped_costs_one_point_and_shows_its_stacks(make: Make) -> None:
    do = {"0.1": "hang", "0.3": "stop"}
    crew = make(points=5, do=do, job={"deadlines": Deadlines(operation_s=3.0)}).start()
    assert crew.wait() == [1]
    cause = "operation save exceeded 3 s on worker 0"
    assert crew.exited().cause == f"benchmark 2 of 5 (Fake) failed: {cause} (and 1 more)"
    failed = {1: ("failed", cause), 3: ("failed", f"{cause} (stopped by SIGSTOP)")}
    assert crew.points_file() == dict.fromkeys(range(5), ("passed", "")) | failed
    assert crew.bodies(Deadline) == [Deadline("operation", 0, 3.0, "save", point, (0,)) for point in (1, 3)]
    hung, stopped = crew.bodies(Stacks)
    assert "in misbehave" in hung.text
    assert "stopped" in stopped.text
    crew.nothing_left()


@pytest.mark.parametrize(
    ("deadlines", "code", "cause"),
    [
        (Deadlines(point_s=2.0), 1, "benchmark 2 of 3 (Fake) failed: the benchmark exceeded 2 s on worker 0"),
        (Deadlines(run_s=3.0), 1, "benchmark 2 of 3 (Fake) failed: the run exceeded 3 s on worker 0"),
    ],
)
def test_the_point_and_the_run_have_deadlines(
    make: Make, deadlines: Deadlines, code: int, cause: str
) -> None:
    crew = make(do={"0.1": "hang"}, job={"deadlines": deadlines}).start()
    assert crew.wait() == [code]
    assert crew.exited().cause == cause
    assert crew.points_file()[2][0] == ("not_run" if deadlines.run_s else "passed")


def test_joining_has_a_deadline(make: Make) -> None:
    crew = make(do={"0.init": "hang"}, job={"deadlines": Deadlines(init_s=1.0)}).start()
    assert crew.wait() == [3]
    assert crew.exited().cause == "the workers did not all join: joining exceeded 1 s on worker 0"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_supervisor_told_to_stop_ends_everything(make: Make, number: signal.Signals) -> None:
    crew = make(do={"0.1": "ignore_term"}).start()
    # What a worker prints and what it reports come by different ways.
    until(lambda: crew.says("ignoring SIGTERM") and any(one.point == 1 for one in crew.bodies(PointPhase)))
    crew.started[0].send_signal(number)
    assert crew.wait() == [130]
    assert crew.exited() == Exited(130, f"told to stop ({number.name})")
    assert crew.points_file()[1] == ("failed", f"told to stop ({number.name})")
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
    assert crew.records()[-1].at - began < 10
    journal = (crew.folder / "w0" / "journal.jsonl").read_text()
    assert '"point": 1' in journal and "told to stop" in journal, "what is known is written down"
    crew.nothing_left()


def test_the_exit_code_of_a_worker_is_not_collected_with_dead_orphans(make: Make) -> None:
    supervisor = Supervisor(next(make().jobs()))
    worker = subprocess.Popen([sys.executable, "-c", "raise SystemExit(7)"])
    os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOWAIT)
    supervisor._worker = worker  # type: ignore[assignment]
    supervisor._do_next()
    assert worker.wait() == 7, "or else nobody would be told that it is gone"


@pytest.mark.parametrize("what", ["hide", "bomb", "hold_stdout"])
def test_what_a_worker_started_goes_with_it(make: Make, what: str) -> None:
    crew = make(do={"0.1": what}, job={"deadlines": Deadlines(operation_s=3.0)}).start()
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        assert crew.wait() == [1 if what != "hide" else 0]
        crew.nothing_left()
        emptied = [path for path in Path("/proc").glob("[0-9]*") if _orphan(path)]
        assert not emptied
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def _orphan(path: Path) -> bool:
    try:
        hidden = b"os.fork() and os._exit(0)" in (path / "cmdline").read_bytes()
        return hidden and (path / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


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


def test_output_is_kept_whole(make: Make) -> None:
    crew = make(do={"0.0": "flood:200", "0.1": "last_line"}).start()
    assert crew.wait() == [0]
    texts = [body.text for body in crew.bodies(Log)]
    assert texts.count("x" * 99) == 20_000
    assert texts[-1] == "no newline é"


def test_strange_output_is_survived(make: Make) -> None:
    crew = make(do={"0.0": "garbage", "0.1": "close_stdout"}).start()
    assert crew.wait() == [0]
    assert sum(body.stream == "supervisor" for body in crew.bodies(Log)) == 3


def test_what_a_worker_says_gets_no_further_unredacted(make: Make) -> None:
    env = {"TOKEN": "hunter22", "SLICEBENCH_SECRET_ENV": "TOKEN"}
    crew = make(do={"0.0": "leak:TOKEN", "0.1": "leak_and_die:TOKEN"}, job={"env": env}).start()
    assert crew.wait() == [1]
    assert crew.says("the secret is (redacted), and a tab\there") and crew.says("(redacted)")
    assert {body.operation for body in crew.bodies(Operation)} == {"save", "save (redacted)"}
    assert "401 for (redacted)" in {body.cause for body in crew.bodies(PointPhase)}
    assert crew.points_file()[1][1].endswith("died with (redacted)"), "written by the supervisor"
    for said in (crew.path().read_bytes(), (crew.folder / "supervisor0.log").read_bytes()):
        assert b"hunter22" not in said and b"\x1b" not in said and b"\\u001b" not in said


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
    assert crew.points_file() == {0: ("passed", ""), 1: ("failed", cause), 2: ("not_run", cause)}
    assert len(crew.bodies(Started)) == 1


def test_a_full_disk_is_told_and_nothing_hangs(make: Make, tmp_path: Path) -> None:
    scratch = tmp_path / "small"
    scratch.mkdir()
    small = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(scratch)]
    mounted = os.geteuid() == 0 and subprocess.run(small, capture_output=True).returncode == 0
    try:
        crew = make(do={"0.0": "flood:1000", "0.1": "hang"}, job={"scratch": str(scratch)})
        if mounted:
            crew.start()
        else:  # the next best for who may not mount: no file may grow beyond this
            before = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (2 << 20, before[1]))
            crew.start()
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert crew.wait() == [3]
        assert f"no space left on {scratch}" in (crew.folder / "supervisor0.log").read_text()
        if mounted:
            assert b"no space left on" in (scratch / "stream.jsonl").read_bytes().splitlines()[-1]
        crew.nothing_left()
    finally:
        if mounted:
            subprocess.run(["umount", "-l", scratch], check=True)
