"""A run through a Prefect server's deployment, so that its UI shows it and can retry it. Speaks REST only."""

from __future__ import annotations

import time

from flows.api import DEPLOYMENT, FlowRunState, PrefectApi, Unreachable
from flows.attempt import name_of
from flows.server import known_server
from flows.terminal import Terminal
from flows.watching import NoServer, Outage, Watched, deployment_on, taken_there
from runtime.contract.errors import ExitCode, InfrastructureError
from tasks.cloud.storage import Folder
from tasks.config.envfile import left_to_environ
from tasks.config.request import RunRequest
from tasks.preload import preload
from tasks.stages.files import OUTCOME_FILE, RUN_LOG

POLL_S = 0.1

ENDING_S = 0.05
"""Between two looks once the run has written how it ended: Prefect hears of it a moment later."""

LONGEST_S = 2.0

SHARE = 0.1
"""Of a server's time, no more than this goes to answering how the run is: it has workers and a UI to serve."""

LAST_STAGES_S = 120.0
"""For so long after it gave its lease back, a run that Prefect calls crashed may still compare and report."""


def run_through_server(request: RunRequest, folder: Folder, terminal: Terminal) -> str:
    """Starts a flow run of the deployment, follows it to its end, and returns the message of its last state.

    SIGINT and SIGTERM cancel the run and wait until it has given everything back; a second one leaves it alone.
    Raises NoServer, having started nothing, when there is no server or it has no such deployment.
    """
    server = known_server()
    if server is None:
        raise NoServer("")
    with PrefectApi(server) as api:
        deployment = deployment_on(api, DEPLOYMENT)
        if said := taken_there(left_to_environ(request.env, request.env_file)):
            terminal.tell(said)
        following = _Following(api, request, folder, terminal)
        flow_run = api.create_flow_run(
            deployment, name_of(request.suite, request.target), request.model_dump(exclude_none=True)
        )
        terminal.tell(f"flow run {flow_run.name}: {server.ui_url}/runs/flow-run/{flow_run.id}")
        preload()  # the table at the end needs some of it
        return following.to_the_end(flow_run)


class _Following:
    """One run being watched: by what its flow run says, and by what it writes into its folder."""

    def __init__(self, api: PrefectApi, request: RunRequest, folder: Folder, terminal: Terminal) -> None:
        """Before the run is started: one that is resumed has a log already, and has ended before."""
        self._api = api
        self._run_id = str(request.run_id)
        self._lease = request.lease or self._run_id
        self._folder = folder
        self._terminal = terminal
        self._tell = terminal.tell
        self._storage = Outage(
            InfrastructureError,
            "the run goes on by itself",
            "what the run writes can be read again",
            terminal.tell,
        )
        self._read = len(folder.read(RUN_LOG) or b"")
        self._ended_before = folder.read(OUTCOME_FILE)
        self._has_ended = False
        self._lived_at: float | None = None
        self._ask_at = 0.0

    def to_the_end(self, flow_run: FlowRunState) -> str:
        watched = Watched(self._api, flow_run, "run", self._tell)
        with watched.stopping(self._terminal.stopping):
            while True:
                self._ask(watched)
                self._look()
                if watched.state.ended and not self._lives_on(watched.state):
                    break
                if watched.is_left:
                    return (
                        f"{ExitCode.INTERRUPTED.name}: left before the run had ended; it is being cancelled"
                    )
                time.sleep(ENDING_S if self._has_ended and not watched.is_away else POLL_S)
            self._look()
        if watched.state.state_type == "CRASHED" and not self._has_ended:
            self._tell_errors(flow_run.id)
        if watched.state.state_type == "CANCELLED":
            return f"{ExitCode.INTERRUPTED.name}: {watched.state.message or 'cancelled'}"
        return watched.state.message

    def _ask(self, watched: Watched) -> None:
        """Asks how the run is, the more seldom the longer the server takes to say; at once when it has ended."""
        began = time.monotonic()
        if began < self._ask_at and not self._has_ended and not watched.is_to_be_cancelled:
            return
        watched.ask()
        if not watched.is_away:
            now = time.monotonic()
            self._ask_at = now + min((now - began) / SHARE, LONGEST_S)

    def _look(self) -> None:
        """Prints what the run said since the last look, and sees whether it wrote how it ended: it does so last."""
        with self._storage.borne():
            self._has_ended = self._folder.read(OUTCOME_FILE) != self._ended_before
            written = self._folder.read(RUN_LOG, self._read) or b""
            whole = written[: written.rfind(b"\n") + 1]
            self._read += len(whole)
            for line in whole.decode(errors="replace").splitlines():
                self._terminal(line.partition(" ")[2])

    def _lives_on(self, state: FlowRunState) -> bool:
        """Whether it is called crashed and is not: a server that was away takes its own silence for the run's."""
        from flows.lease import is_held

        if state.state_type != "CRASHED" or self._has_ended:
            return False
        if not is_held(self._run_id, self._lease):
            return self._lived_at is not None and time.monotonic() - self._lived_at < LAST_STAGES_S
        if self._lived_at is None:
            self._tell(f"Prefect calls the run crashed ({state.message}); it lives, and goes on")
        self._lived_at = time.monotonic()
        return True

    def _tell_errors(self, flow_run_id: str) -> None:
        try:
            for line in self._api.errors(flow_run_id):
                self._tell(line)
        except Unreachable as error:
            self._tell(str(error))
