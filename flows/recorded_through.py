"""A night, an acceptance, or the like, through a Prefect server here: a flow run of its deployment, which the UI shows
and can retry, told by what it writes down of itself.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flows.api import FlowRunState, PrefectApi
from flows.server import known_server
from flows.watching import NoServer, Outage, Say, Watched, deployment_on, taken_there
from runtime.contract.errors import ExitCode, InfrastructureError
from tasks.cloud.storage import open_folder, read_json

LOOK_S = 1.0


@dataclass(frozen=True)
class Recorded:
    """What is played, and writes down how it goes.

    `what` it is called; `deployment`, `name` and `parameters` of its flow run; `file` in the folder `uri` is what it
    writes; `of_the_worker`: environment variables that are read where it is played; `runs`: the names of all that it
    may make, whose folders lie beside its own.
    """

    what: str
    deployment: str
    name: str
    parameters: Mapping[str, Any]
    uri: str
    file: str
    of_the_worker: Sequence[str] = ()
    runs: Collection[str] = ()


def play_through_server(one: Recorded, say: Say) -> tuple[ExitCode, Mapping[str, Any]]:
    """Has it played as a flow run, tells how it goes, and returns how it ended, with what it has written down.

    SIGINT and SIGTERM cancel it and wait until all is given back; a second one leaves it alone. Raises NoServer,
    having started nothing, where there is no server on this machine or it has no such deployment.
    """
    server = known_server()
    if server is None:
        raise NoServer("")
    if not server.is_here:
        article = "an" if one.what[0] in "aeiou" else "a"
        raise NoServer(f"{server} is not on this machine, as the files of {article} {one.what} are")
    with PrefectApi(server) as api:
        deployment = deployment_on(api, one.deployment)
        following = _Following(api, one, say)
        flow_run = api.create_flow_run(deployment, one.name, dict(one.parameters))
        if said := taken_there(one.of_the_worker):
            say(said)
        say(f"flow run {one.name}: {server.ui_url}/runs/flow-run/{flow_run.id}")
        return following.to_the_end(flow_run)


class _Following:
    """Something being watched: what of it has come to its end, by its own record."""

    def __init__(self, api: PrefectApi, one: Recorded, say: Say) -> None:
        """Before it is started: one that is gone on with has a record already."""
        self._api, self._say = api, say
        self._folder, self._file, self._what = open_folder(one.uri), one.file, one.what
        self._before = self._record = read_json(self._folder, self._file)
        self._storage = Outage(
            InfrastructureError,
            f"the {one.what} goes on by itself",
            f"what the {one.what} writes can be read again",
            say,
        )
        self._told: set[str] = set()

    def to_the_end(self, flow_run: FlowRunState) -> tuple[ExitCode, Mapping[str, Any]]:
        watched = Watched(self._api, flow_run, self._what, self._say)
        with watched.stopping():
            while not watched.state.ended:
                if watched.is_left:
                    return ExitCode.INTERRUPTED, self._written()
                watched.ask()
                self._look()
                if not watched.state.ended:
                    time.sleep(LOOK_S)
        self._look()
        return self._ended(watched.state)

    def _ended(self, state: FlowRunState) -> tuple[ExitCode, Mapping[str, Any]]:
        record = self._written()
        written = record.get("exit_code")
        if written in set(ExitCode):
            return ExitCode(written), record
        if state.state_type == "CANCELLED":
            return ExitCode.INTERRUPTED, record
        name, _, cause = state.message.partition(": ")
        told = cause if name in ExitCode.__members__ else state.message
        self._say(told or "the flow run ended without saying why")
        return ExitCode.__members__.get(name, ExitCode.INFRASTRUCTURE), record

    def _written(self) -> Mapping[str, Any]:
        """Returns what this pass has written; nothing while what is there is an earlier one's."""
        if self._record == self._before or not isinstance(self._record, Mapping):
            return {}
        return self._record

    def _look(self) -> None:
        """Tells the cells that have come to their end since the last look."""
        with self._storage.borne():
            self._record = read_json(self._folder, self._file)
        for cell in self._written().get("cells") or ():
            runs = len(cell.get("runs") or ())
            line = f"{cell['title']}: {str(cell['status']).replace('_', ' ')}" + (
                f": {cell['cause']}" if cell.get("cause") else ""
            )
            key = f"{line} {runs}"
            if key not in self._told:
                self._told.add(key)
                self._say(line + (", run again" if cell.get("again") else ""))
