"""`slicebench up` for tests: a real server, workers and deployments, and questions about what they did."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
import psutil

from flows.serving.settings import free_port
from runtime.contract.job import LEASE_VARIABLE, LEDGER_VARIABLE
from tasks.leases.directory_ledger import DirectoryLedger
from tasks.leases.lease import Lease
from tests.system.suites import lay_suite

ROOT = Path(__file__).parents[2]
_BUSY = (httpx.codes.SERVICE_UNAVAILABLE, httpx.codes.TOO_MANY_REQUESTS)

PATIENCE_S = 600.0
"""For whatever is waited for: it comes in seconds, but machines that others load stall for minutes."""


class Station:
    """One `slicebench up` with a state root of its own."""

    def __init__(self, home: Path, more: Mapping[str, str] | None = None) -> None:
        """`more` is added to the environment."""
        self.home = home
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("PREFECT_")}
        self.environment |= {"SLICEBENCH_HOME": str(home), "PYTHONPATH": str(ROOT), **(more or {})}
        self._commands: list[subprocess.Popen[str]] = []
        self.port = free_port()
        self.log = home / "up.log"
        with self.log.open("w") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "flows.cli.main", "up", "--port", str(self.port)],
                cwd=ROOT, env=self.environment, stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip
        try:
            wait_for(lambda: "start a run" in self.log.read_text() or self.process.poll() is not None)
            assert self.process.poll() is None, self.log.read_text()
        except BaseException:
            self.close()
            raise
        self.auth = (home / "prefect" / "auth").read_text().strip()
        user, password = self.auth.split(":")
        self.http = httpx.Client(
            base_url=f"http://127.0.0.1:{self.port}/api/",
            auth=(user, password),
            trust_env=False,
            timeout=PATIENCE_S,
        )

    @property
    def up(self) -> bool:
        return self.process.poll() is None

    def close(self) -> None:
        """Takes it down as `slicebench down --now` does; a run that still goes is cancelled."""
        self.process.send_signal(signal.SIGUSR1)
        try:
            self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise

    def command(self, *words: str) -> subprocess.Popen[str]:
        """Starts `slicebench WORDS`."""
        command = subprocess.Popen(
            [sys.executable, "-m", "flows.cli.main", *words],
            cwd=ROOT, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        self._commands.append(command)
        return command

    def begin(self, run_id: str, *words: str) -> subprocess.Popen[str]:
        """Starts `slicebench run`; again where the server was too busy to take it, as whoever reads that would do."""
        while True:
            command = self.command("run", *words, "--run-id", run_id)
            wait_for(lambda: self.knows(run_id) or command.poll() is not None)  # noqa: B023 (asked at once)
            if self.knows(run_id):
                return command
            said = command.communicate()[0]
            assert "answers 503" in said, said

    def long_run(self, run_id: str) -> subprocess.Popen[str]:
        """Starts a run that measures until `let_go`, and returns its command once it does measure."""
        folder = self.home / "suites" / run_id
        suite = lay_suite(folder, "patient", go=str(folder / "go"))
        command = self.begin(run_id, str(suite))
        wait_for(lambda: self.measuring(run_id) or command.poll() is not None)
        assert command.poll() is None, command.communicate()[0]
        return command

    def let_go(self, run_id: str) -> None:
        (self.home / "suites" / run_id / "go").touch()

    def end_commands(self) -> None:
        """Ends what a test that failed has left: its run would take the machine from the next one."""
        for command in self._commands:
            if command.poll() is None:
                command.send_signal(signal.SIGINT)
                command.communicate(timeout=PATIENCE_S)
        self._commands.clear()

    def call(self, path: str, body: Any = None) -> Any:
        """Posts to the API."""
        return self._asked("POST", path, body or {})

    def read(self, path: str) -> Any:
        """Gets from the API."""
        return self._asked("GET", path)

    def _asked(self, method: str, path: str, body: Any = None) -> Any:
        # SQLite is busy now and then; Prefect's own clients ask again as well.
        deadline = time.monotonic() + PATIENCE_S
        while (answer := self.http.request(method, path, json=body)).status_code in _BUSY:
            assert time.monotonic() < deadline, answer.text
            time.sleep(0.2)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    def flow_run(self, run_id: str) -> Mapping[str, Any]:
        """Returns the flow run of a run."""
        found = self._flow_runs(run_id)
        assert found, f"no flow run of {run_id}"
        return dict(found[0])

    def knows(self, run_id: str) -> bool:
        """Says whether there is a flow run of a run."""
        return bool(self._flow_runs(run_id))

    def _flow_runs(self, run_id: str) -> list[dict[str, Any]]:
        found = self.call("flow_runs/filter", {"sort": "ID_DESC", "limit": 200})
        return [one for one in found if one["parameters"].get("run_id") == run_id]

    def state(self, run_id: str) -> str:
        return str(self.flow_run(run_id)["state"]["name"])

    def task_runs(self, run_id: str) -> list[str]:
        """Returns the names of a run's tasks, in the order of their starts."""
        condition = {"flow_runs": {"id": {"any_": [self.flow_run(run_id)["id"]]}}}
        found = self.call("task_runs/filter", condition | {"limit": 200})
        started = [task for task in found if task["start_time"]]
        return [task["name"] for task in sorted(started, key=lambda task: str(task["start_time"]))]

    def artifacts(self, run_id: str) -> dict[str, Any]:
        """Returns the data of a run's artifacts, by key."""
        condition = {"artifacts": {"flow_run_id": {"any_": [self.flow_run(run_id)["id"]]}}}
        return {artifact["key"]: artifact["data"] for artifact in self.call("artifacts/filter", condition)}

    def folder(self, run_id: str) -> Path:
        return self.home / "runs" / run_id

    def measuring(self, run_id: str) -> bool:
        """Whether the workers of a run are at work."""
        log = self.folder(run_id) / "run.log"
        return log.exists() and "the worker has joined" in log.read_text()

    def leases(self, run_id: str) -> list[Lease]:
        return [one for one in DirectoryLedger(self.home / "ledger").listing().leases if one.run_id == run_id]

    def workload(self, run_id: str) -> list[psutil.Process]:
        """Returns every process that carries the label of one of the run's leases in this ledger."""
        ledger = DirectoryLedger(self.home / "ledger").id
        return [
            process
            for process in psutil.process_iter()
            if variable(process, LEASE_VARIABLE).startswith(f"{run_id}-e")
            and variable(process, LEDGER_VARIABLE) == ledger
        ]

    def flow_process(self, run_id: str) -> psutil.Process:
        """Returns the process that Prefect's worker started for the run's flow."""
        flow_run = str(self.flow_run(run_id)["id"]).replace("-", "")
        for process in psutil.process_iter():
            is_it = variable(process, "PREFECT__FLOW_RUN_ID").replace("-", "") == flow_run
            if is_it and "prefect" in " ".join(words(process)) and not variable(process, LEASE_VARIABLE):
                return process
        raise AssertionError(f"no process of {run_id}")

    def prefect_worker(self, pool: str) -> psutil.Process:
        for process in psutil.process_iter():
            if variable(process, "SLICEBENCH_HOME") != str(self.home):
                continue
            if {"worker", "start", pool} <= set(words(process)):
                return process
        raise AssertionError(f"no worker of {pool}")


def variable(process: psutil.Process, name: str) -> str:
    """Returns what a process was started with under that name; empty for one that has ended."""
    try:
        return process.environ().get(name, "")
    except psutil.Error:
        return ""


def words(process: psutil.Process) -> list[str]:
    """Returns the command of a process; empty for one that has ended."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def wait_for(condition: Callable[[], Any], timeout_s: float = PATIENCE_S, look_every_s: float = 0.2) -> Any:
    """Returns the first true answer of a condition; an AssertionError in it counts as not yet."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            if found := condition():
                return found
            complaint = ""
        except AssertionError as error:
            complaint = str(error)
        assert time.monotonic() < deadline, f"not within {timeout_s:.0f} s: {complaint}"
        time.sleep(look_every_s)
