"""A run without a server, ended from outside: by Ctrl-C in the terminal, by SIGTERM, by kill -9."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from runtime.contract.job import LEASE_VARIABLE
from tasks.leases.lease import State
from tasks.leases.ledger import DirectoryLedger
from tests.system.prefect_station import LONG, ROOT, wait_for

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]


class Alone:
    """A `slicebench run --no-server` that is measuring, in a process group of its own as a terminal makes it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.environment = os.environ | {"SLICEBENCH_HOME": str(home), "PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "flows.cli.main", "run", "quickstart", "--no-server", "--run-id", "r", *LONG],
            cwd=ROOT, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            start_new_session=True,
        )  # fmt: skip
        log = home / "runs" / "r" / "run.log"
        wait_for(lambda: log.exists() and "the worker has joined" in log.read_text(), 180)

    def states(self) -> list[State]:
        return [lease.state for lease in DirectoryLedger(self.home / "ledger").listing().leases]

    def left(self) -> list[psutil.Process]:
        """Returns what still runs of it: workers, supervisors, and the Prefect server."""
        found = []
        for process in psutil.process_iter():
            try:
                variables = process.environ()
            except psutil.Error:
                continue
            ours = variables.get("SLICEBENCH_HOME") == str(self.home) or "r-e" in variables.get(
                LEASE_VARIABLE, ""
            )
            if ours and process.status() != psutil.STATUS_ZOMBIE and process.pid != self.process.pid:
                found.append(process)
        return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_gives_everything_back_and_exits_130(tmp_path: Path, number: signal.Signals) -> None:
    run = Alone(tmp_path)
    if number == signal.SIGINT:
        # As a terminal does it: to everything in the group at once, which must not take the server away too early.
        os.killpg(run.process.pid, number)
    else:
        run.process.send_signal(number)
    told, _ = run.process.communicate(timeout=90)
    assert run.process.returncode == 130, told
    assert run.states() == [State.GONE]
    wait_for(lambda: run.left() == [], 15)
    assert "slicebench run --resume r" in told
    # A worker that is ended may say so with a traceback, behind its number; the command may not.
    assert "\nTraceback" not in told


def test_after_kill_9_nothing_runs_on_and_reap_and_resume_do_the_rest(tmp_path: Path) -> None:
    run = Alone(tmp_path)
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
    wait_for(lambda: run.left() == [], 15)
    assert run.states() == [State.GONE]
