"""A run without a server, or without Prefect, ended from outside: by Ctrl-C in the terminal, SIGTERM, kill -9."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from runtime.contract.job import LEDGER_VARIABLE
from tasks.leases.directory_ledger import DirectoryLedger
from tasks.leases.lease import State
from tests.system.prefect_station import PATIENCE_S, ROOT, variable, wait_for, words
from tests.system.suites import lay_suite

pytestmark = pytest.mark.system

LONG = ("--set", "num_repeats=20000")
"""Overrides that keep quickstart busy for as long as a test may take."""


class Alone:
    """A `slicebench run` that is measuring, in a process group of its own as a terminal makes it."""

    def __init__(self, home: Path, *words: str, way: str = "--no-server") -> None:
        self.home = home
        self.environment = os.environ | {"SLICEBENCH_HOME": str(home), "PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "flows.cli.main", "run", *words, way, "--run-id", "r"],
            cwd=ROOT, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            start_new_session=True,
        )  # fmt: skip

    def wait_until_measuring(self) -> None:
        wait_for(lambda: self.measuring() or self.process.poll() is not None)
        assert self.process.poll() is None, self.process.communicate()[0]

    def measuring(self) -> bool:
        log = self.home / "runs" / "r" / "run.log"
        return log.exists() and "the worker has joined" in log.read_text()

    def end(self) -> None:
        """Ends what a test that failed has left."""
        for left in (self.process, *self.left()):
            with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
                left.kill()

    def states(self) -> list[State]:
        return [lease.state for lease in DirectoryLedger(self.home / "ledger").listing().leases]

    def outcome(self) -> dict[str, Any]:
        return dict(json.loads((self.home / "runs" / "r" / "outcome.json").read_text()))

    def left(self) -> list[psutil.Process]:
        """Returns what still runs of it: workers, supervisors, and the Prefect server."""
        ledger = DirectoryLedger(self.home / "ledger").id
        return [
            process
            for process in psutil.process_iter()
            if process.pid != self.process.pid
            and (
                variable(process, "SLICEBENCH_HOME") == str(self.home)
                or variable(process, LEDGER_VARIABLE) == ledger
            )
        ]


@pytest.fixture(params=["--no-server", "--direct"])
def run(home: Path, request: pytest.FixtureRequest) -> Iterator[Alone]:
    alone = Alone(home, "quickstart", *LONG, way=request.param)
    try:
        alone.wait_until_measuring()
        yield alone
    finally:
        alone.end()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_gives_everything_back_and_exits_130(run: Alone, number: signal.Signals) -> None:
    if number == signal.SIGINT:
        # As a terminal does it: to everything in the group at once, which must not take the server away too early.
        os.killpg(run.process.pid, number)
    else:
        run.process.send_signal(number)
    told, _ = run.process.communicate(timeout=PATIENCE_S)
    assert run.process.returncode == 130, told
    assert run.states() == [State.GONE]
    wait_for(lambda: run.left() == [])
    assert "slicebench run --resume r" in told
    # A worker that is ended may say so with a traceback, behind its number; the command may not.
    assert "\nTraceback" not in told


def test_after_kill_9_nothing_runs_on_and_reap_does_the_rest(run: Alone) -> None:
    run.process.kill()
    run.process.wait()
    reaped = subprocess.run(
        [sys.executable, "-m", "flows.cli.main", "reap"],
        cwd=ROOT,
        env=run.environment,
        capture_output=True,
        text=True,
    )
    assert reaped.returncode == 0, reaped.stderr
    (cause,) = run.outcome()["causes"]
    assert re.fullmatch(rf"slicebench's process {run.process.pid} on \S+ was killed during RUN", cause)
    assert cause in reaped.stdout
    wait_for(lambda: run.left() == [])
    assert run.states() == [State.GONE]


def test_a_run_whose_prefect_server_dies_goes_on_and_tells_how_it_ended(home: Path, tmp_path: Path) -> None:
    go = tmp_path / "suite" / "go"
    alone = Alone(home, str(lay_suite(go.parent, "patient", go=str(go))))
    try:
        alone.wait_until_measuring()
        (server,) = [one for one in alone.left() if "prefect.server.api.server:create_app" in words(one)]
        server.kill()
        # Its parent is the run, which may leave it a zombie for as long as it lives.
        wait_for(lambda: not server.is_running() or server.status() == psutil.STATUS_ZOMBIE)
        go.touch()
        told, _ = alone.process.communicate(timeout=PATIENCE_S)
        assert alone.process.returncode == 0, told
        assert alone.outcome()["exit_code"] == 0
        assert told.count("Prefect's server for this run has ended") == 1
        assert "Traceback" not in told and "Error logging" not in told
        assert alone.states() == [State.GONE]
        wait_for(lambda: alone.left() == [])
    finally:
        alone.end()
