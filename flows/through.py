"""A run through a Prefect server's deployment, so that its UI shows it and can retry it. Speaks REST only."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

from flows.api import DEPLOYMENT, FlowRunState, PrefectApi, Unreachable
from flows.attempt import name_of
from flows.server import known_server
from flows.signals import answered
from flows.terminal import Terminal
from runtime.contract.errors import ExitCode, InfrastructureError
from tasks.cloud.storage import Folder
from tasks.config.request import RunRequest
from tasks.preload import preload
from tasks.stages.files import OUTCOME_FILE, RUN_LOG

POLL_S = 0.1

ENDING_S = 0.05
"""Between two looks once the run has written how it ended: Prefect hears of it a moment later."""

LONGEST_S = 2.0

SHARE = 0.1
"""Of a server's time, no more than this goes to answering how the run is: it has workers and a UI to serve."""

PATIENCE_FOR_A_WORKER_S = 30.0

LAST_STAGES_S = 120.0
"""For so long after it gave its lease back, a run that Prefect calls crashed may still compare and report."""


class NoServer(InfrastructureError):
    """There is no server to go through, and why; no reason where none was to be expected."""


def run_through_server(request: RunRequest, folder: Folder, terminal: Terminal) -> str:
    """Starts a flow run of the deployment, follows it to its end, and returns the message of its last state.

    SIGINT and SIGTERM cancel the run and wait until it has given everything back; a second one leaves it alone.
    Raises NoServer, having started nothing, when there is no server or it has no such deployment.
    """
    server = known_server()
    if server is None:
        raise NoServer("")
    with PrefectApi(server) as api:
        try:
            deployment = api.deployment_id(DEPLOYMENT)
        except InfrastructureError as error:
            raise NoServer(str(error)) from error
        if deployment is None:
            raise NoServer(f"{server} has no deployment {DEPLOYMENT}")
        if bare := [entry for entry in request.env if "=" not in entry]:
            terminal.tell(
                f"the value of {', '.join(bare)} is taken from the environment of the Prefect worker"
            )
        # A run that is resumed has a log already.
        read = len(folder.read(RUN_LOG) or b"")
        flow_run = api.create_flow_run(
            deployment, name_of(request.suite, request.target), request.model_dump(exclude_none=True)
        )
        terminal.tell(f"flow run {flow_run.name}: {server.ui_url}/runs/flow-run/{flow_run.id}")
        preload()  # the table at the end needs some of it
        return _Following(api, flow_run, request, folder, read, terminal).to_the_end()


class _Following:
    """One flow run being watched."""

    def __init__(
        self,
        api: PrefectApi,
        flow_run: FlowRunState,
        request: RunRequest,
        folder: Folder,
        read: int,
        terminal: Terminal,
    ) -> None:
        self._api = api
        self._flow_run = flow_run
        self._run_id = str(request.run_id)
        self._lease = request.lease or self._run_id
        self._folder = folder
        self._terminal = terminal
        self._tell = terminal.tell
        self._read = read
        self._away = False
        self._ended_before = folder.read(OUTCOME_FILE)  # of a run that is resumed
        self._lived_at: float | None = None
        self._asked_to_stop = 0
        self._cancelled = False
        self._waiting_since: float | None = time.monotonic()
        self._ask_at = 0.0

    def to_the_end(self) -> str:
        with self._stopping():
            while True:
                self._once()
                if self._flow_run.ended and not self._lives_on():
                    break
                if self._asked_to_stop > 1:
                    return (
                        f"{ExitCode.INTERRUPTED.name}: left before the run had ended; it is being cancelled"
                    )
                time.sleep(ENDING_S if self._has_ended() and not self._away else POLL_S)
            self._print_log()
        if self._flow_run.state_type == "CRASHED" and not self._has_ended():
            self._tell_errors()
        if self._flow_run.state_type == "CANCELLED":
            return f"{ExitCode.INTERRUPTED.name}: {self._flow_run.message or 'cancelled'}"
        return self._flow_run.message

    def _once(self) -> None:
        try:
            if self._asked_to_stop and not self._cancelled:
                self._api.cancel(self._flow_run.id)
                self._cancelled = True
            self._ask()
            if self._away:
                self._tell("the Prefect server is back")
            self._away = False
        except Unreachable as error:
            if not self._away:
                self._tell(f"{error}; the run goes on by itself")
            self._away = True
        self._print_log()
        self._mention_waiting()

    def _lives_on(self) -> bool:
        """Whether it is called crashed and is not: a server that was away takes its own silence for the run's."""
        from flows.lease import is_held

        if self._flow_run.state_type != "CRASHED" or self._has_ended():
            return False
        if not is_held(self._run_id, self._lease):
            return self._lived_at is not None and time.monotonic() - self._lived_at < LAST_STAGES_S
        if self._lived_at is None:
            self._tell(f"Prefect calls the run crashed ({self._flow_run.message}); it lives, and goes on")
        self._lived_at = time.monotonic()
        return True

    def _has_ended(self) -> bool:
        """Whether the run wrote down how it ended, which it does last."""
        return self._folder.read(OUTCOME_FILE) != self._ended_before

    def _ask(self) -> None:
        """Asks how the run is, the more seldom the longer the server takes to say; at once when it has ended."""
        began = time.monotonic()
        if began < self._ask_at and not self._has_ended():
            return
        self._flow_run = self._api.flow_run(self._flow_run.id)
        now = time.monotonic()
        self._ask_at = now + min((now - began) / SHARE, LONGEST_S)

    def _tell_errors(self) -> None:
        try:
            for line in self._api.errors(self._flow_run.id):
                self._tell(line)
        except Unreachable as error:
            self._tell(str(error))

    def _print_log(self) -> None:
        written = self._folder.read(RUN_LOG, self._read) or b""
        whole = written[: written.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.decode(errors="replace").splitlines():
            self._terminal(line.partition(" ")[2])

    def _mention_waiting(self) -> None:
        if self._flow_run.state_type not in ("SCHEDULED", "PENDING"):
            self._waiting_since = None
        elif (
            self._waiting_since is not None
            and time.monotonic() - self._waiting_since > PATIENCE_FOR_A_WORKER_S
        ):
            self._waiting_since = None
            self._tell(
                "no worker has taken the flow run yet. Another run may be in the way, or no worker runs "
                "(start one: slicebench up)"
                if self._flow_run.state_type == "SCHEDULED"
                else "a worker has taken the flow run, whose process has not begun yet; a busy machine takes its time"
            )

    @contextmanager
    def _stopping(self) -> Iterator[None]:
        def ask(number: signal.Signals) -> None:
            self._asked_to_stop += 1
            self._terminal.stopping()
            self._tell(
                "cancelling; waiting until everything is given back (once more: leave now)"
                if self._asked_to_stop == 1
                else "left; `slicebench leases` shows what is still being given back"
            )

        with answered((signal.SIGINT, signal.SIGTERM), ask):
            yield
