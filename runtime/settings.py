"""What one worker process is told: its flags and, where a flag is absent, JAX's own environment variables."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from runtime.contract.disruption import Restart
from runtime.contract.errors import BadInput
from runtime.contract.job import Platform
from runtime.contract.limits import SWITCH_VARIABLE


@dataclass(frozen=True)
class Membership:
    """This worker's place among all that run the suite together; one worker needs no coordinator."""

    worker: int
    workers: int
    coordinator: str | None
    heartbeat_s: int
    init_deadline_s: int


@dataclass(frozen=True)
class Settings:
    """One worker of one attempt. `output` is the run's folder, a path or gs://; `scratch` is on this host.

    `points` are those of the suite to run; None: all. Of them, those from `first_point` on are run. `restart`: the
    first one was disrupted, and goes on in the middle. `limits`: what the machine can do at best is measured first.
    """

    suite: Path
    output: str
    membership: Membership
    run_id: str
    attempt: int
    first_point: int
    points: frozenset[int] | None
    scratch: Path | None
    platform: Platform | None
    devices_per_worker: int | None
    local_directory: str | None
    debug_dumps: bool
    keep_checkpoints: bool
    restart: Restart | None = None
    limits: bool = True

    def runs(self, point: int) -> bool:
        """Says whether a point of the suite is to run."""
        return point >= self.first_point and self.takes(point)

    def takes(self, point: int) -> bool:
        """Says whether a point is one of those that this attempt is for."""
        return self.points is None or point in self.points


def parse(arguments: Sequence[str], environ: Mapping[str, str]) -> Settings:
    """Reads flags and environment. Raises BadInput when they contradict; unknown flags exit with 2."""
    given = _parser().parse_args(arguments)
    worker = _number(given.worker, environ, "JAX_PROCESS_ID", default=0)
    workers = _number(given.workers, environ, "JAX_NUM_PROCESSES", default=1)
    coordinator = given.coordinator or _coordinator(environ)
    if not 0 <= worker < workers:
        raise BadInput(f"worker {worker} is none of {workers} workers", fix="count --worker from 0")
    if workers > 1 and coordinator is None:
        raise BadInput(
            f"{workers} workers have no coordinator to meet at",
            fix="pass --coordinator HOST:PORT, or set JAX_COORDINATOR_ADDRESS",
        )
    return Settings(
        suite=given.suite,
        output=given.output.rstrip("/") if "://" in given.output else str(Path(given.output).absolute()),
        membership=Membership(worker, workers, coordinator, given.heartbeat_s, given.init_deadline_s),
        run_id=given.run_id or given.output.rstrip("/").rsplit("/", 1)[-1],
        attempt=given.attempt,
        first_point=given.first_point,
        points=_points(given.points),
        scratch=given.scratch,
        platform=given.platform,
        devices_per_worker=given.devices_per_worker,
        local_directory=given.local_directory,
        debug_dumps=given.debug_dumps,
        keep_checkpoints=given.keep_checkpoints,
        restart=_restart(given.restart),
        limits=not given.no_limits and environ.get(SWITCH_VARIABLE) != "off",
    )


def _coordinator(environ: Mapping[str, str]) -> str | None:
    address = environ.get("JAX_COORDINATOR_ADDRESS")
    port = environ.get("JAX_COORDINATOR_PORT")
    if address and port and ":" not in address.rsplit("]", 1)[-1]:
        return f"{address}:{port}"
    return address or None


def _number(given: int | None, environ: Mapping[str, str], variable: str, *, default: int) -> int:
    if given is not None:
        return given
    value = environ.get(variable)
    if not value:
        return default
    try:
        return int(value)
    except ValueError as error:
        raise BadInput(f"{variable} is {value!r}", fix="set it to a whole number") from error


def _points(given: str | None) -> frozenset[int] | None:
    if given is None:
        return None
    try:
        return frozenset(int(number) for number in given.split(","))
    except ValueError as error:
        raise BadInput(f"--points {given} names no points", fix="write numbers, such as 0,3") from error


def _restart(given: str | None) -> Restart | None:
    if given is None:
        return None
    try:
        return Restart.of(given)
    except ValueError as error:
        raise BadInput(f"--restart {given}: {error}", fix="leave this flag to the supervisor") from error


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m runtime",
        allow_abbrev=False,
        description="Runs a suite of checkpoint benchmarks on this worker; samples go below OUTPUT.",
    )
    add = parser.add_argument
    add("suite", type=Path, metavar="SUITE", help="suite file (YAML, Orbax's format)")
    add("--output", required=True, help="the run's folder: a path, or gs://…")
    add("--worker", type=int, help="index of this worker, from 0 (default: JAX_PROCESS_ID, or 0)")
    add("--workers", type=int, help="number of workers (default: JAX_NUM_PROCESSES, or 1)")
    add("--coordinator", metavar="HOST:PORT", help="where workers meet (default: JAX_COORDINATOR_ADDRESS)")
    add("--run-id", help="name of the run in the samples (default: name of the output folder)")
    add("--attempt", type=int, default=1, help="which start of the run this is, from 1")
    add("--first-point", type=int, default=0, metavar="K", help="start at this point of the suite, from 0")
    add("--restart", metavar="JSON", help="go on in the middle of the first point (from the supervisor)")
    add("--points", metavar="K,L,…", help="run only these points of the suite, from 0 (default: all)")
    add(
        "--scratch",
        type=Path,
        metavar="DIR",
        help="this worker's own folder on this host (default: temporary)",
    )
    add("--platform", choices=("cpu", "gpu", "tpu"), help="what to compute on (default: what JAX finds)")
    add("--devices-per-worker", type=int, metavar="D", help="devices of this worker; CPU only")
    add("--local-directory", metavar="DIR", help="local tier of multi-tier checkpoints, on each host")
    add("--debug-dumps", action="store_true", help="write XLA dumps below OUTPUT")
    add("--keep-checkpoints", action="store_true", help="leave checkpoints where they were written")
    add(
        "--no-limits",
        action="store_true",
        help="do not measure first what the machine can do at best (same: SLICEBENCH_LIMITS=off)",
    )
    add("--heartbeat-s", type=int, default=100, help="a worker silent for so long counts as dead")
    add("--init-deadline-s", type=int, default=300, help="longest time for all workers to meet")
    return parser
