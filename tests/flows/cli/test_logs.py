"""`slicebench logs` prints what workers said, and follows a run until it has ended."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.cli.main import main
from tasks.cloud.storage import open_folder
from tasks.leases.outcome import begin_pass
from tasks.stages.logs import follow_logs, has_ended
from tests.flows.cli.past import leave_run


def test_lines_carry_their_worker_and_cannot_steer_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    leave_run(tmp_path, "run-1", 1000.0, ended=False)
    assert main(["logs", "run-1", "--output", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "[0] hello from 0",
        "[0] bye\N{REPLACEMENT CHARACTER}[2J",
        "[1] hello from 1",
        "[1] bye\N{REPLACEMENT CHARACTER}[2J",
    ]


def test_one_worker_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    leave_run(tmp_path, "run-1", 1000.0, ended=False)
    assert main(["logs", "run-1", "--worker", "1", "--json", "--output", str(tmp_path)]) == 0
    lines = json.loads(capsys.readouterr().out)["lines"]
    assert lines[0] == {"worker": 1, "text": "hello from 1"}
    assert {line["worker"] for line in lines} == {1}


def test_a_worker_that_has_no_log_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    leave_run(tmp_path, "run-1", 1000.0, ended=False)
    assert main(["logs", "run-1", "--worker", "7", "--output", str(tmp_path)]) == 2
    assert "workers with logs: 0, 1" in capsys.readouterr().err


def test_the_latest_attempt_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = leave_run(tmp_path, "run-1", 1000.0, ended=False)
    (folder / "logs" / "attempt-2").mkdir()
    (folder / "logs" / "attempt-2" / "worker-0000.log").write_text("second try\n")
    assert main(["logs", "--output", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "[0] second try\n"


def test_a_run_without_logs_is_no_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    leave_run(tmp_path, "run-1", 1000.0, ended=False, logs=False)
    assert main(["logs", "run-1", "--output", str(tmp_path)]) == 0
    assert "has said anything yet" in capsys.readouterr().err


def test_json_cannot_follow(tmp_path: Path) -> None:
    leave_run(tmp_path, "run-1", 1000.0)
    assert main(["logs", "run-1", "--follow", "--json", "--output", str(tmp_path)]) == 2


def test_following_an_ended_run_prints_it_and_ends(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    leave_run(tmp_path, "run-1", 1000.0)
    assert main(["logs", "run-1", "--follow", "--worker", "0", "--output", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "[0] hello from 0"


def test_following_waits_for_whole_lines_and_new_workers(tmp_path: Path) -> None:
    folder = leave_run(tmp_path, "run-1", 1000.0, ended=False, logs=False)
    log = folder / "logs" / "worker-0000.log"
    log.parent.mkdir()
    log.write_text("one\ntw")
    lines: Iterator[tuple[int, str]] = follow_logs(open_folder(str(folder)), None)
    assert next(lines) == (0, "one")

    def go_on() -> None:
        with log.open("a") as file:
            file.write("o\nthree")
        (folder / "logs" / "worker-0001.log").write_text("late\n")
        (folder / "outcome.json").write_text("{}")

    writer = threading.Timer(0.1, go_on)
    writer.start()
    assert sorted(lines) == [(0, "three"), (0, "two"), (1, "late")]
    writer.join()


def test_a_resumed_run_goes_on_although_it_ended_before(tmp_path: Path) -> None:
    folder = leave_run(tmp_path, "run-1", 1000.0)
    assert has_ended(open_folder(str(folder)))
    begin_pass(open_folder(str(folder)), 2000.0)
    assert not has_ended(open_folder(str(folder)))
