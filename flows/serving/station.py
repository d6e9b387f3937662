"""A Prefect server with workers and deployments, here, for as long as `slicebench up` runs."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from flows.api import PrefectApi, Unreachable
from flows.server import Server
from flows.serving import children, place
from flows.serving.children import Child
from flows.serving.ephemeral import tail_of
from flows.serving.settings import HOST, auth_settings, own_home_settings, without_prefect
from runtime.contract.errors import InfrastructureError, Interrupted

ROOT = Path(__file__).resolve().parents[2]

POOLS = ("slicebench", "slicebench-reaper")

START_S = 600.0
"""A server and its workers import for half a minute of CPU: a machine that is busy takes minutes over it."""

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
    stop_wanted: Callable[[], bool] = lambda: False,
    patience_s: float = START_S,
) -> Station:
    """Starts server, pools, deployments and workers; returns when work would be done.

    Raises InfrastructureError, with what it started stopped again, when something does not start.
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
    try:
        with _deadline(patience_s, stop_wanted) as hurry:
            station.start("server", "prefect", "server", "start", "--host", HOST, "--port", str(port))
            # Started now, so that its imports are done when the server is: it waits for it.
            register = station.start("register", "flows.serving.register")
            _await(hurry, station, lambda: "pools" in _words(register), "the server and its work pools")
            for pool in POOLS:
                station.start_worker(pool)
            _await(hurry, station, lambda: register.ended, "the deployments")
            del station.running["register"]
            if register.handle.returncode != 0:
                raise InfrastructureError(f"deploying failed; see {register.log}:\n{tail_of(register.log)}")
            with PrefectApi(server) as api:
                for pool in POOLS:
                    _await(hurry, station, lambda pool=pool: api.has_worker(pool), f"the worker of {pool}")  # type: ignore[misc]
    except BaseException:
        station.stop()
        raise
    station.write_down()
    return station


def _words(child: Child) -> Sequence[str]:
    return child.log.read_text(errors="replace").split("\n")


@contextmanager
def _deadline(seconds: float, stop_wanted: Callable[[], bool]) -> Iterator[Callable[[], bool]]:
    end = time.monotonic() + seconds

    def over() -> bool:
        if stop_wanted():
            raise Interrupted("stopped while starting")
        return time.monotonic() > end

    yield over


def _await(hurry: Callable[[], bool], station: Station, done: Callable[[], bool], what: str) -> None:
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
        if hurry():
            raise InfrastructureError(
                f"{what} did not get ready in time; the logs are in {place.folder() / 'logs'}"
            )
        time.sleep(_LOOK_EVERY_S)
