"""A Prefect server with workers and deployments, here, for as long as `slicebench up` runs."""

from __future__ import annotations

import functools
import os
import socket
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from flows.api import PrefectApi, Unreachable
from flows.server import Server
from flows.serving import children, place
from flows.serving.children import Child
from flows.serving.ephemeral import tail_of
from flows.serving.settings import (
    HOST,
    POOLS,
    ROOT,
    START_S,
    auth_settings,
    own_home_settings,
    without_prefect,
)
from runtime.contract.errors import InfrastructureError, Interrupted

_LOOK_EVERY_S = 0.3

_DATABASE = ("PREFECT_SERVER_DATABASE", "PREFECT_API_DATABASE")
"""A user's Postgres is the one thing of his settings that the server should hear of."""


@dataclass
class Station:
    """Server, workers and what is known of them."""

    server: Server
    environment: dict[str, str]
    tell: Callable[[str], None]
    running: dict[str, Child] = field(default_factory=dict)

    def start(self, what: str, *arguments: str) -> Child:
        """Starts `python -m ARGUMENTS` under a name."""
        log = place.folder() / "logs" / f"{what}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        child = children.start(what, [sys.executable, "-m", *arguments], self.environment, ROOT, log)
        self.running[what] = child
        self.write_down()
        return child

    def start_worker(self, pool: str) -> None:
        """Starts the worker of a pool."""
        name = f"{pool}-on-{socket.gethostname()}"
        self.start(
            f"worker-{pool}",
            "prefect",
            "worker",
            "start",
            "--pool",
            pool,
            "--type",
            "process",
            "--name",
            name,
        )

    def write_down(self) -> None:
        """Keeps up.json true."""
        owner = place.Process.of("slicebench up", os.getpid())
        started = tuple(child.process for child in self.running.values())
        place.write_up(place.Up(self.server.api_url, self.server.auth_string or "", owner, started))

    def look(self) -> None:
        """Starts a worker that has ended again. Raises InfrastructureError when the server has."""
        for what, child in list(self.running.items()):
            if not child.ended:
                continue
            if what == "server":
                raise InfrastructureError(
                    f"the Prefect server has ended; see {child.log}:\n{tail_of(child.log)}"
                )
            self.tell(f"{what} has ended (see {child.log}); starting another")
            self.start_worker(what.removeprefix("worker-"))

    def stop(self) -> None:
        """Ends what was started, workers first, and nothing else."""
        for what in sorted(self.running, key=lambda what: what == "server"):
            children.stop(self.running[what].process)
        self.running.clear()
        place.forget_up()


def raise_up(
    port: int,
    tell: Callable[[str], None],
    stop_wanted: Callable[[], bool],
) -> Station:
    """Starts server, pools, deployments and workers; returns when work would be done.

    Raises InfrastructureError when something does not start, Interrupted when it is `stop_wanted` before; what was
    started is stopped again.
    """
    place.folder().mkdir(parents=True, exist_ok=True, mode=0o700)
    secret = place.auth_string()
    server = Server(f"http://{HOST}:{port}/api", "slicebench up", secret)
    environment = without_prefect() | {k: v for k, v in os.environ.items() if k.startswith(_DATABASE)}
    environment |= own_home_settings(place.folder()) | auth_settings(secret)
    environment |= {"PREFECT_API_URL": server.api_url, "PREFECT_LOGGING_COLORS": "false"}
    # How often workers look for work: Prefect's 10 s are felt by who waits for a run to start.
    environment |= {"PREFECT_WORKER_QUERY_SECONDS": "5"}
    station = Station(server, environment, tell)
    deadline = time.monotonic() + START_S

    def until(done: Callable[[], bool], what: str) -> None:
        _until(done, what, station, deadline, stop_wanted)

    try:
        station.start("server", "prefect", "server", "start", "--host", HOST, "--port", str(port))
        # Started now, so that its imports are done when the server is: it waits for it.
        register = station.start("register", "flows.serving.register")
        until(lambda: "pools" in _words(register), "the server and its work pools")
        for pool in POOLS:
            station.start_worker(pool)
        until(lambda: register.ended, "the deployments")
        del station.running["register"]
        if register.handle.returncode != 0:
            raise InfrastructureError(f"deploying failed; see {register.log}:\n{tail_of(register.log)}")
        with PrefectApi(server) as api:
            for pool in POOLS:
                until(functools.partial(api.has_worker, pool), f"the worker of {pool}")
    except BaseException:
        station.stop()
        raise
    station.write_down()
    return station


def _words(child: Child) -> Sequence[str]:
    return child.log.read_text(errors="replace").split("\n")


def _until(
    done: Callable[[], bool], what: str, station: Station, deadline: float, stop_wanted: Callable[[], bool]
) -> None:
    """Returns once it is done; raises when a child has failed, the deadline has passed, or it is to stop."""
    while True:
        try:
            if done():
                return
        except Unreachable:
            pass
        for child in station.running.values():
            if child.ended and child.handle.returncode != 0:
                raise InfrastructureError(
                    f"{child.process.what} did not start; see {child.log}:\n{tail_of(child.log)}"
                )
        if stop_wanted():
            raise Interrupted("stopped while starting")
        if time.monotonic() > deadline:
            raise InfrastructureError(
                f"{what} did not get ready in time; the logs are in {place.folder() / 'logs'}"
            )
        time.sleep(_LOOK_EVERY_S)
