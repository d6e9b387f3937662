"""What a run says reaches run.log whole, Prefect in a sampled stream, and a listener at once."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from prefect.engine import handle_engine_signals
from prefect.exceptions import FailedRun

from flows.calls import tell_calls
from flows.narration import Narrator, heard_by
from flows.prefect_log import drop_expected_tracebacks, logged_by
from runtime.contract.errors import BadInput, InfrastructureError
from tasks.cloud.calls import calling
from tasks.cloud.storage import Folder, open_folder
from tests.waiting import PATIENCE_S, until

LOGGER = logging.getLogger("test-narration")


def lines(folder: Folder) -> list[str]:
    return [line.partition(" ")[2] for line in (folder.read("run.log") or b"").decode().splitlines()]


def test_run_log_holds_every_line_also_those_said_before_there_was_a_folder(tmp_path: Path) -> None:
    folder = open_folder(str(tmp_path))
    say = Narrator(logged_by(LOGGER))
    say("before")
    say.write_to(folder)
    for number in range(250):
        say(f"line {number}")
    say("two\nlines")
    say.close()
    assert lines(folder) == ["before", *(f"line {n}" for n in range(250)), "two", "lines"]


def test_at_most_a_hundred_lines_go_to_prefect_in_any_second(monkeypatch: pytest.MonkeyPatch) -> None:
    now, told = 0.0, list[float]()
    say = Narrator(logged_by(LOGGER), lambda: now)
    monkeypatch.setattr(LOGGER, "info", lambda *_: told.append(now))
    for number in range(3000):
        now = number / 1000 + (0.7 if number > 1500 else 0.0)
        say(f"line {number}")
    say.close()
    assert 300 <= len(told) <= 401
    for first, at in enumerate(told[:-1]):  # but the last, which tells how many were left out at the end
        assert sum(1 for later in told[first:-1] if later < at + 1.0 - 1e-9) <= 100


def test_a_resumed_run_appends_to_its_log(tmp_path: Path) -> None:
    folder = open_folder(str(tmp_path))
    for attempt in ("first", "second"):
        say = Narrator(logged_by(LOGGER))
        say.write_to(folder)
        say(attempt)
        say.close()
    assert lines(folder) == ["first", "second"]


def test_a_line_can_be_read_soon_although_nothing_is_said_after_it(tmp_path: Path) -> None:
    folder = open_folder(str(tmp_path))
    say = Narrator(logged_by(LOGGER))
    say.write_to(folder)
    say("now comes a long silence")
    until(lambda: lines(folder) == ["now comes a long silence"])
    say.close()


def test_a_storage_that_fails_is_told_and_does_not_end_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    folder = open_folder(str(tmp_path))

    def full(name: str, content: bytes) -> None:
        raise InfrastructureError("no space left on device")

    say = Narrator(logged_by(LOGGER))
    say.write_to(folder)
    monkeypatch.setattr(folder, "write", full)
    say("something")
    say.close()
    say.close()
    assert ["no space left" in record.getMessage() for record in caplog.records] == [False, True]


def test_writing_the_log_is_no_call_to_tell_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = open_folder(str(tmp_path))
    write, written = folder.write, threading.Semaphore(0)

    def remote(name: str, content: bytes) -> None:
        with calling("gs", f"write {name}"):
            write(name, content)
        written.release()

    monkeypatch.setattr(folder, "write", remote)
    say = Narrator(logged_by(LOGGER))
    tell_calls(say)
    say.write_to(folder)
    say("something")
    assert written.acquire(timeout=PATIENCE_S)
    with calling("gs", "read x"):
        pass
    assert written.acquire(timeout=PATIENCE_S)
    tell_calls(None)
    say.close()
    assert [line.rpartition(", ")[0] or line for line in lines(folder)] == [
        "something",
        "call gs: read x: ok",
    ]


def test_a_listener_in_this_process_hears_every_line() -> None:
    heard: list[str] = []
    with heard_by(heard.append):
        say = Narrator(logged_by(LOGGER))
    say("hello")
    assert heard == ["hello"]


def test_expected_errors_are_logged_without_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    drop_expected_tracebacks()
    drop_expected_tracebacks()
    log = logging.getLogger("prefect.task_runs")
    log.propagate = True
    for error in (BadInput("no such suite"), KeyError("bug")):
        try:
            raise error
        except (BadInput, KeyError):
            log.exception("failed")
    expected, bug = caplog.records
    assert expected.exc_info is None
    assert bug.exc_info is not None


def test_a_flow_that_ended_as_failed_is_no_unexpected_exception(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A flow that another test ran in this process is none of which this engine knows the end.
    monkeypatch.setattr("prefect.engine.engine_outcome_is_handled", lambda: False)
    drop_expected_tracebacks()
    logs = [logging.getLogger(name) for name in ("prefect", "prefect.engine", "prefect.flow_runs")]
    for log in logs:
        monkeypatch.setattr(log, "propagate", True)
    for error in (FailedRun("REGRESSION: verdict: refused"), KeyError("bug")):
        with pytest.raises(SystemExit), handle_engine_signals():  # around each flow run of a worker
            try:
                raise error
            except Exception:  # so does run_flow
                logs[-1].error("Engine execution exited with unexpected exception", exc_info=True)
                raise
    assert [type(one.exc_info[1]) for one in caplog.records if one.exc_info] == [KeyError, KeyError]
    assert len(caplog.records) == 2


_PRINTS = """
import logging, os, sys
import prefect
from prefect.logging.configuration import setup_logging
from flows.prefect_log import outlive_worker
setup_logging()
if sys.argv[1] == "lives":
    outlive_worker()
reader, writer = os.pipe()
os.dup2(writer, 1)
os.dup2(writer, 2)
os.close(reader)
for logger in ("prefect", "prefect.flow_runs", "prefect.task_runs"):
    for number in range(2):
        logging.getLogger(logger).warning("line %d", number)
os._exit(7)
"""


@pytest.mark.parametrize(("told", "code"), [("lives", 7), ("dies", 1)])
def test_lines_that_nobody_takes_any_more_do_not_end_the_process(told: str, code: int) -> None:
    quiet = {"PREFECT_LOGGING_TO_API_ENABLED": "false", "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", _PRINTS, told], env=os.environ | quiet, timeout=PATIENCE_S)
    assert done.returncode == code
