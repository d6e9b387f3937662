"""A Prefect server with workers and deployments, here, for as long as `slicebench up` runs."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import psutil

from flows.api import PrefectApi, Unreachable
from flows.server import Server
from flows.serving import children, place
from flows.serving.children import Child
from flows.serving.ephemeral import tail_of
from flows.serving.settings import (
    DATABASE,
    HOST,
    POOLS,
    REFUSED,
    ROOT,
    START_S,
    auth_settings,
    own_home_settings,
    without_prefect,
)
from runtime.contract.counting import counted
from runtime.contract.errors import BadInput, InfrastructureError, Interrupted

_LOOK_EVERY_S = 0.3

LIVES = 5
LATELY_S = 600.0
"""What ends more often than `LIVES` times in so many seconds is not started again: it will not stay up."""


@dataclass
class Station:
    """Server, workers and what is known of them."""

    server: Server
    environment: dict[str, str]
    tell: Callable[[str], None]
    running: dict[str, Child] = field(default_factory=dict)
    commands: dict[str, tuple[str, ...]] = field(default_factory=dict)
    ends: dict[str, list[float]] = field(default_factory=dict)

    def start(self, what: str, *arguments: str) -> Child:
        """Starts `python -m ARGUMENTS` under a name."""
        log = place.folder() / "logs" / f"{what}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        child = children.start(what, [sys.executable, "-m", *arguments], self.environment, ROOT, log)
        self.running[what] = child
        self.commands[what] = arguments
        self.write_down()
        return child

    def start_worker(self, pool: str) -> None:
        """Starts the worker of a pool."""
        words = ("worker", "start", "--pool", pool, "--type", "process", "--name", place.worker_of(pool))
        self.start(f"worker-{pool}", "prefect", *words)

    def write_down(self) -> None:
        """Keeps up.json true."""
        owner = place.Process.of("slicebench up", os.getpid())
        started = tuple(child.process for child in self.running.values())
        place.write_up(place.Up(self.server.api_url, self.server.auth_string or "", owner, started))

    def look(self) -> None:
        """Starts again what has ended, server or worker. Raises StaysDown for what ended too often lately.

        Runs do not need the server while they go, and a worker asks for it until it is back.
        """
        for what, child in list(self.running.items()):
            if child.ended:
                self._start_again(what, child)

    def _start_again(self, what: str, child: Child) -> None:
        now = time.monotonic()
        lately = [at for at in self.ends.get(what, []) if now - at < LATELY_S]
        if len(lately) >= LIVES:
            raise StaysDown(
                f"{what} has ended {len(lately) + 1} times in {LATELY_S / 60:.0f} minutes and is not started again; "
                f"see {child.log}:\n{tail_of(child.log)}"
            )
        self.ends[what] = [*lately, now]
        self.tell(f"{what} has ended (see {child.log}.1); starting another")
        self.start(what, *self.commands[what])

    def outlast_runs(
        self, impatient: Callable[[], bool], sleep: Callable[[float], None] = time.sleep
    ) -> None:
        """Returns once no worker has a run any more, or whoever waits is `impatient`: a worker stopped kills its runs.

        Asks this machine, not the server, which may be what is down.
        """
        if count := self._runs():
            self.tell(
                f"waiting for {counted(count, 'run')} to end (Ctrl-C: end them; the reaper gives back the rest)"
            )
        while not impatient() and self._runs():
            sleep(_LOOK_EVERY_S)

    def _runs(self) -> int:
        """Returns how many processes the workers have: one for each run."""
        workers = [child.process.found() for what, child in self.running.items() if what != "server"]
        count = 0
        for worker in workers:
            with contextlib.suppress(psutil.NoSuchProcess):
                count += len(worker.children()) if worker is not None else 0
        return count

    def stop(self) -> None:
        """Ends what was started, workers first, and nothing else."""
        for what in sorted(self.running, key=lambda what: what == "server"):
            children.stop(self.running[what].process)
        self.running.clear()
        place.forget_up()


class StaysDown(InfrastructureError):
    """A part ends as often as it is started."""


def raise_up(
    port: int,
    tell: Callable[[str], None],
    stop_wanted: Callable[[], bool],
) -> Station:
    """Starts server, pools, deployments and workers; returns when work would be done.

    Raises BadInput where another `up` works on the same database, InfrastructureError when something does not start,
    Interrupted when it is `stop_wanted` before; what was started is stopped again.
    """
    place.folder().mkdir(parents=True, exist_ok=True, mode=0o700)
    secret = place.auth_string()
    server = Server(f"http://{HOST}:{port}/api", "slicebench up", secret)
    environment = without_prefect() | {k: v for k, v in os.environ.items() if k.startswith(DATABASE)}
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
                if refusals := [line for line in _words(child) if line.startswith(REFUSED)]:
                    raise BadInput(refusals[-1].removeprefix(REFUSED))
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
