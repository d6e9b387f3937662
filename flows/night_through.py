"""A night through a Prefect server here: a flow run of the deployment, which its UI shows and can retry."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping
from typing import Any

from flows.api import FlowRunState, PrefectApi, Unreachable
from flows.server import known_server
from flows.signals import answered
from flows.through import PATIENCE_FOR_A_WORKER_S, NoServer
from runtime.contract.errors import ExitCode, InfrastructureError
from tasks.cloud.storage import open_folder, read_json
from tasks.config.locate import locate
from tasks.config.nightly_cells import Night
from tasks.config.run_names import suite_stem
from tasks.stages.nightly_record import NIGHT_FILE

DEPLOYMENT = "nightly/weeknights"
"""It has a schedule for one file; any other one may be played by it."""

LOOK_S = 1.0

Say = Callable[[str], None]


def play_through_server(file: str, night: Night, say: Say) -> tuple[ExitCode, Mapping[str, Any]]:
    """Has a night played as a flow run, tells how it goes, and returns how it ended, with night.json.

    SIGINT and SIGTERM cancel it and wait until all is given back; a second one leaves it alone. Raises NoServer,
    having started nothing, where there is no server on this machine or it has no such deployment.
    """
    server = known_server()
    if server is None:
        raise NoServer("")
    if not server.is_here:
        raise NoServer(f"{server} is not on this machine, as the files of a night are")
    with PrefectApi(server) as api:
        try:
            deployment = api.deployment_id(DEPLOYMENT)
        except InfrastructureError as error:
            raise NoServer(str(error)) from error
        if deployment is None:
            raise NoServer(f"{server} has no deployment {DEPLOYMENT}")
        parameters = {"file": str(locate(file, "nightly").absolute()), "night": night.date}
        flow_run = api.create_flow_run(deployment, f"{suite_stem(file)} {night.date}", parameters)
        if elsewhere := _of_the_worker(night):
            say(f"the value of {', '.join(elsewhere)} is taken from the environment of the Prefect worker")
        say(f"flow run {suite_stem(file)} {night.date}: {server.ui_url}/runs/flow-run/{flow_run.id}")
        return _Following(api, flow_run, night, say).to_the_end()


def _of_the_worker(night: Night) -> list[str]:
    """Returns the environment variables that the night reads where it is played."""
    bare = [one for one in night.config.env if "=" not in one]
    return [*bare, *(one.url_env for one in night.config.alerts.webhooks if one.url_env)]


class _Following:
    """One night being watched: what has come to its end, by its own record."""

    def __init__(self, api: PrefectApi, flow_run: FlowRunState, night: Night, say: Say) -> None:
        self._api, self._flow_run, self._say = api, flow_run, say
        self._folder = open_folder(night.uri)
        self._before = read_json(self._folder, NIGHT_FILE)  # of a night that is gone on with
        self._told: set[str] = set()
        self._asked_to_stop = 0
        self._cancelled = False
        self._away = False
        self._waiting_since: float | None = time.monotonic()

    def to_the_end(self) -> tuple[ExitCode, Mapping[str, Any]]:
        with answered((signal.SIGINT, signal.SIGTERM), self._stop):
            while not self._flow_run.ended:
                if self._asked_to_stop > 1:
                    return ExitCode.INTERRUPTED, self._record()
                self._look()
                if not self._flow_run.ended:
                    time.sleep(LOOK_S)
        self._tell_cells()
        return self._ended()

    def _ended(self) -> tuple[ExitCode, Mapping[str, Any]]:
        record, message = self._record(), self._flow_run.message
        if record == self._before:
            record = {}  # it came to nothing: what is written there is of an earlier pass
        written = record.get("exit_code")
        if written in set(ExitCode):
            return ExitCode(written), record
        if self._flow_run.state_type == "CANCELLED":
            return ExitCode.INTERRUPTED, record
        name, _, cause = message.partition(": ")
        self._say(cause if name in ExitCode.__members__ else message or "the flow run ended without a word")
        return ExitCode.__members__.get(name, ExitCode.INFRASTRUCTURE), record

    def _look(self) -> None:
        try:
            if self._asked_to_stop and not self._cancelled:
                self._api.cancel(self._flow_run.id)
                self._cancelled = True
            self._flow_run = self._api.flow_run(self._flow_run.id)
            if self._away:
                self._say("the Prefect server is back")
            self._away = False
        except Unreachable as error:
            if not self._away:
                self._say(f"{error}; the night goes on by itself")
            self._away = True
        self._mention_waiting()
        self._tell_cells()

    def _record(self) -> Mapping[str, Any]:
        found = read_json(self._folder, NIGHT_FILE)
        return found if isinstance(found, Mapping) else {}

    def _tell_cells(self) -> None:
        """Tells the cells that have come to their end since the last look."""
        record = self._record()
        if record == self._before:
            return
        for cell in record.get("cells") or ():
            runs = len(cell.get("runs") or ())
            line = f"{cell['title']}: {str(cell['status']).replace('_', ' ')}" + (
                f": {cell['cause']}" if cell.get("cause") else ""
            )
            key = f"{line} {runs}"
            if key not in self._told:
                self._told.add(key)
                self._say(line + (", run again" if cell.get("again") else ""))

    def _mention_waiting(self) -> None:
        if self._flow_run.state_type not in ("SCHEDULED", "PENDING"):
            self._waiting_since = None
        elif (
            self._waiting_since is not None
            and time.monotonic() - self._waiting_since > PATIENCE_FOR_A_WORKER_S
        ):
            self._waiting_since = None
            self._say(
                "no worker has taken the flow run yet. Another night may be in the way, or no worker runs "
                "(start one: slicebench up)"
            )

    def _stop(self, number: signal.Signals) -> None:
        self._asked_to_stop += 1
        self._say(
            "cancelling; waiting until everything is given back (once more: leave now)"
            if self._asked_to_stop == 1
            else "left; `slicebench leases` shows what is still being given back"
        )
