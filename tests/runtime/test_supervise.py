"""One supervisor around one worker that may misbehave: what is told and written down; that nothing is left."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from runtime.contract.job import Deadlines
from runtime.contract.progress import (
    Deadline,
    Log,
    Operation,
    PointPhase,
    Stacks,
    Started,
    WorkerExited,
)
from runtime.supervise import Supervisor
from tests.runtime.supervised import Make


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
