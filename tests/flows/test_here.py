"""A run with a Prefect server of its own, whose server ends before the run does: the run's own word counts."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from flows.cli.main import main
from flows.serving.ephemeral import Ephemeral
from tests.flows.run_stub import outcome
from tests.waiting import PATIENCE_S


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Stands in for the server of the run; is ready at once."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])

    @contextmanager
    def ephemeral_server() -> Iterator[Ephemeral]:
        yield Ephemeral({"PREFECT_API_URL": "http://127.0.0.1:1/api"}, process, tmp_path / "server.log")

    monkeypatch.setattr("flows.here.ephemeral_server", ephemeral_server)
    monkeypatch.setattr("flows.serving.ephemeral.wait_until_ready", lambda settings, ended: None)
    # What the command changes of its own process is as before afterwards.
    monkeypatch.setattr(logging, "raiseExceptions", True)
    for name in [*os.environ, "PREFECT_API_URL"]:
        if name.startswith("PREFECT_"):
            monkeypatch.setenv(name, "")
    yield process
    process.kill()
    process.wait()


def flow_that(monkeypatch: pytest.MonkeyPatch, does: Callable[[dict[str, Any]], None]) -> None:
    """Makes the flow do this and then fail to tell Prefect about it."""

    def benchmark(**parameters: Any) -> None:
        does(parameters)
        raise httpx.ConnectError("All connection attempts failed")

    monkeypatch.setattr("flows.benchmark.benchmark", benchmark)


@pytest.mark.parametrize("code", [0, 1, 4])
def test_how_a_run_ended_is_its_own_word_where_prefects_server_ended_before(
    server: subprocess.Popen[bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    code: int,
) -> None:
    def does(parameters: dict[str, Any]) -> None:
        outcome(tmp_path / parameters["run_id"], code, causes=["the restored tree differs"] if code else [])
        server.kill()
        server.wait()

    flow_that(monkeypatch, does)
    assert main(["run", "quickstart", "--no-server", "--output", str(tmp_path)]) == code
    told = capsys.readouterr().err
    assert told.count(f"Prefect's server for this run has ended (see {tmp_path / 'server.log'})") == 1
    assert "outcome and exit code are the run's own" in told
    assert "Traceback" not in told


def test_a_run_that_never_began_for_want_of_a_server_is_an_infrastructure_failure(
    server: subprocess.Popen[bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    flow_that(monkeypatch, lambda parameters: None)
    words = ["run", "quickstart", "--no-server", "--output", str(tmp_path), "--json"]
    assert main(words) == 3
    told, shown = capsys.readouterr()
    (cause,) = json.loads(told)["causes"]
    assert "does not answer (ConnectError: All connection attempts failed)" in cause
    assert shown.endswith("nothing was made\n")


def test_prefect_that_takes_long_to_start_is_said_to_be_at_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard, told = threading.Event(), list[str]()

    def tell(line: str) -> None:
        told.append(line)
        heard.set()

    def slow(settings: Mapping[str, str], ended: Callable[[], bool]) -> None:
        assert heard.wait(PATIENCE_S)

    monkeypatch.setattr("flows.serving.ephemeral.wait_until_ready", slow)
    monkeypatch.setattr("flows.serving.ephemeral.LONG_S", 0.01)
    Ephemeral({}, subprocess.Popen([sys.executable, "-c", ""]), tmp_path / "log").wait_until_ready(tell)
    (line,) = told
    assert "Prefect is still starting" in line
