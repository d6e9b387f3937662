"""A run that is followed on a Prefect server while the server itself comes and goes, or errs about the run."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from flows.cli.main import main
from tasks.config.home import ledger_uri, scratch_folder
from tasks.leases.claim import claim
from tasks.leases.inventory import open_inventories
from tasks.leases.opening import open_ledger
from tests.flows.prefect_stub import PrefectStub
from tests.flows.run_stub import outcome


def test_a_server_that_goes_away_and_comes_back_is_told_once_and_the_run_goes_on(
    server: PrefectStub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[bool] = []

    def away() -> bool:
        calls.append(server.flow_run != {} and 2 <= len(calls) < 5)
        if len(calls) == 7:
            outcome(tmp_path / "r1")
            server.end("COMPLETED")
        return calls[-1]

    server.away = away
    server.on_start = lambda flow_run: server.end("RUNNING")
    assert main(["run", "quickstart", "--output", str(tmp_path), "--run-id", "r1"]) == 0
    assert calls.count(True) == 3 and len(calls) == 7
    told = [line for line in capsys.readouterr().err.splitlines() if "the Prefect server" in line]
    assert len(told) == 2
    assert "does not answer" in told[0] and told[0].endswith("the run goes on by itself")
    assert told[1] == "the Prefect server is back"


def test_a_folder_that_cannot_be_read_for_a_while_is_told_once_and_the_run_followed_on(
    server: PrefectStub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[bool] = []
    log = tmp_path / "r1" / "run.log"

    def away() -> bool:
        calls.append(False)
        if len(calls) == 3:
            log.mkdir(parents=True)  # which no file can be read of
        if len(calls) == 6:
            log.rmdir()
            log.write_text("12:00:00 all is well\n")
        if len(calls) == 7:
            outcome(tmp_path / "r1")
            server.end("COMPLETED")
        return False

    server.away = away
    server.on_start = lambda flow_run: server.end("RUNNING")
    assert main(["run", "quickstart", "--output", str(tmp_path), "--run-id", "r1"]) == 0
    told = capsys.readouterr().err.splitlines()
    assert [
        line for line in told if line.endswith("run.log: Is a directory; the run goes on by itself")
    ] != []
    assert told.count("what the run writes can be read again") == told.count("all is well") == 1


def test_a_run_that_wrote_down_how_it_ended_is_asked_about_at_once(
    server: PrefectStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flows.through.SHARE", 1e-9)  # any answer buys the server an hour of rest
    monkeypatch.setattr("flows.through.LONGEST_S", 3600.0)
    rested = threading.Timer(120, os.kill, (os.getpid(), signal.SIGINT))  # better than to wait for the hour
    asked: list[bool] = []

    def away() -> bool:
        if server.flow_run:
            asked.append(True)
            outcome(tmp_path / "r1")
        if len(asked) == 2:
            server.end("COMPLETED")
        return False

    server.away = away
    server.on_start = lambda flow_run: server.end("RUNNING")
    rested.start()
    try:
        assert main(["run", "quickstart", "--output", str(tmp_path), "--run-id", "r1"]) == 0
    finally:
        rested.cancel()


@pytest.mark.parametrize(
    ("state", "told"),
    [
        ("SCHEDULED", "no worker has taken the flow run yet"),
        ("PENDING", "a worker has taken the flow run, whose process has not begun yet"),
    ],
)
def test_a_flow_run_that_does_not_begin_says_what_it_waits_for(
    server: PrefectStub,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    state: str,
    told: str,
) -> None:
    monkeypatch.setattr("flows.watching.PATIENCE_FOR_A_WORKER_S", 0.0)
    calls: list[bool] = []

    def away() -> bool:
        calls.append(False)
        if len(calls) == 5:
            outcome(tmp_path / "r1")
            server.end("COMPLETED")
        return False

    server.away = away
    server.on_start = lambda flow_run: server.end(state)
    assert main(["run", "quickstart", "--output", str(tmp_path), "--run-id", "r1"]) == 0
    assert capsys.readouterr().err.count(told) == 1


def test_a_run_that_is_called_crashed_and_lives_is_followed_on(
    server: PrefectStub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = open_ledger(ledger_uri())
    claim(ledger, open_inventories(ledger, scratch_folder()), "r1", "r1")  # so that this process is its run
    calls: list[bool] = []

    def away() -> bool:
        calls.append(False)
        if len(calls) == 6:
            outcome(tmp_path / "r1")
            server.end("COMPLETED")
        return False

    server.away = away
    server.on_start = lambda flow_run: server.end("CRASHED", "not heard for 90 s")
    assert main(["run", "quickstart", "--output", str(tmp_path), "--run-id", "r1"]) == 0
    told = capsys.readouterr().err
    assert told.count("Prefect calls the run crashed (not heard for 90 s); it lives, and goes on") == 1


def test_a_run_that_is_called_crashed_is_followed_through_its_last_stages(
    server: PrefectStub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = open_ledger(ledger_uri())
    lease = claim(ledger, open_inventories(ledger, scratch_folder()), "r1", "r1")
    calls: list[bool] = []

    def away() -> bool:
        calls.append(False)
        if len(calls) == 4:
            lease.release("over")  # then it compares and reports, for which it needs no hardware
        if len(calls) == 7:
            outcome(tmp_path / "r1")
        return False

    server.away = away
    server.on_start = lambda flow_run: server.end("CRASHED", "not heard for 90 s")
    assert main(["run", "quickstart", "--output", str(tmp_path), "--run-id", "r1"]) == 0
    assert len(calls) >= 7
    assert "slicebench: not heard for 90 s" not in capsys.readouterr().err


def test_a_signal_while_the_server_is_away_cancels_the_run_once_it_is_back(
    server: PrefectStub, tmp_path: Path
) -> None:
    calls: list[bool] = []

    def away() -> bool:
        calls.append(server.flow_run != {} and 2 <= len(calls) < 5)
        if len(calls) == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return calls[-1]

    server.away = away
    server.on_start = lambda flow_run: server.end("RUNNING")
    assert main(["run", "quickstart", "--output", str(tmp_path), "--run-id", "r1"]) == 130
    assert calls.count(True) == 3
    cancels = [body for method, path, body in server.calls if path == "flow_runs/f1/set_state"]
    assert [body["state"]["type"] for body in cancels] == ["CANCELLING"]
