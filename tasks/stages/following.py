"""Follows one attempt of a run to its end: its workers' logs, the lease's renewals, the run's deadline."""

from __future__ import annotations

import contextlib
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from runtime.contract.errors import ExitCode
from runtime.contract.names import sidecar_log
from runtime.contract.redaction import Redaction
from tasks.follow import Follower
from tasks.leases.holding import Holding
from tasks.stages.context import Run
from tasks.stages.files import log_folder
from tasks.stages.recovery import Hearing
from tasks.targets.streams import LOST
from tasks.targets.types import PREEMPTED, Event, Exited, NeverUp, Progress, SidecarLine, State, WorkloadRef

GRACE_S = 10.0
"""How long a workload that is stopped gets to end by itself; Prefect kills a cancelled flow after 30 s."""

_BACKSTOP_S = 120.0
"""The supervisors hold the run's deadline; when none of them does, the stage ends the workload so much later."""

OnProgress = Callable[[Progress], None]


@dataclass
class Listener:
    """Who is told of each step of the workers', and once an attempt's workers are heard for the first time.

    `hearing` is what listens to the attempt that is followed, `taken_at` when the one before was seen to be taken away,
    by our clock. `blow` is asked after each event whether to stop it on purpose.
    """

    progress: OnProgress
    heard: Callable[[], None]
    hearing: Hearing | None = None
    taken_at: float | None = None
    blow: Callable[[], State | None] | None = None

    def listening(self, events: Iterable[Event], begun: Callable[[], None]) -> Iterator[Event]:
        """Passes events on, having told of the first that a worker is behind: states come while it waits."""
        heard = False
        for event in events:
            if self.hearing is not None:
                self.hearing.hear(event)
            if not heard and not isinstance(event, State | SidecarLine):
                heard = True
                begun()
                self.heard()
            yield event
            if self.blow is not None and (told := self.blow()) is not None:
                if self.hearing is not None:
                    self.hearing.hear(told)
                yield told


def follow(
    run: Run, ref: WorkloadRef, lease: Holding, listener: Listener, stop: Callable[[], None] | None
) -> tuple[Mapping[int, Exited], State | None]:
    """Follows a workload to its end, while the lease is renewed and the workers are told so.

    Returns how each worker ended, and what said that the hardware was taken away, if anything did. `stop` is called
    while an error or a signal unwinds this; None: it goes on without us.
    """
    states: list[State] = []
    with (
        lease.renewing(also=lambda: run.target.renew(ref)),
        _logs(run, ref.attempt) as logs,
        _backstop(run, ref) as begin_backstop,
        Follower(
            logs.workers,
            run.say,
            listener.progress,
            on_state=states.append,
            redact=_redaction(run),
            sidecars=logs.sidecar,
        ) as follower,
    ):
        try:
            events = run.target.follow(ref, follower.cursors())
            exits = follower.follow(listener.listening(events, begin_backstop))
            return exits, next((state for state in states if state.state == PREEMPTED), None)
        except BaseException as error:
            if stop is not None:
                # What they say while they end is worth reading too; stopping them here makes that end.
                stop()
                with contextlib.suppress(OSError):
                    follower.follow(run.target.follow(ref, follower.cursors()))
            if isinstance(error, NeverUp):
                raise NeverUp(_redaction(run)(str(error))) from error.__cause__
            raise


def judged(exits: Mapping[int, Exited], taken: State | None, stop: Callable[[], None]) -> tuple[str, str]:
    """Returns the end of an attempt that was followed, and its cause. What is left of one that was taken is stopped."""
    end, cause = how_it_ended(exits)
    if taken is not None and end != "succeeded":
        stop()  # what was not taken away must not go on without the rest
        return "preempted", "; ".join(part for part in (taken.reason, taken.evidence) if part)
    return end, cause


def how_it_ended(exits: Mapping[int, Exited]) -> tuple[str, str]:
    """Returns the end of an attempt and its root cause, from how each worker's supervisor ended. Pure."""
    if not exits:
        return "lost", "no worker said how it ended"
    end, root = _root(exits)
    return end, root.cause if end != "succeeded" else ""


def code_of(exits: Mapping[int, Exited]) -> int | None:
    """Returns the exit code of the worker that an attempt ended by, as containers have it: who was killed has 137."""
    if not exits:
        return None
    code = _root(exits)[1].code
    return code if code >= 0 else _KILLED


def _root(exits: Mapping[int, Exited]) -> tuple[str, Exited]:
    by_end: dict[str, list[Exited]] = {}
    for exited in exits.values():
        by_end.setdefault(_END_OF.get(exited.code, "lost"), []).append(exited)
    end = next(end for end in ("interrupted", "lost", "failed", "succeeded") if end in by_end)
    # One that was killed can only say that; those who saw it know more.
    told = sorted(by_end[end], key=lambda exited: (exited.code == LOST, not exited.cause, exited.worker))
    return end, told[0]


_KILLED = 137

_END_OF: Mapping[int, str] = {
    ExitCode.DONE: "succeeded",
    ExitCode.WORKLOAD_FAILED: "failed",
    ExitCode.BAD_INPUT: "failed",
    ExitCode.INTERRUPTED: "interrupted",
}


def _redaction(run: Run) -> Redaction:
    env = run.spec.env
    return Redaction(env[name] for name in run.spec.secret_env if name in env)


@dataclass(frozen=True)
class _Logs:
    """Where the logs of an attempt are written: below a folder here, as in the run's own."""

    folder: Path
    attempt: int

    @property
    def workers(self) -> Path:
        return self.folder / log_folder(self.attempt)

    def sidecar(self, worker: int) -> Path:
        return self.folder / sidecar_log(self.attempt, worker)


@contextlib.contextmanager
def _logs(run: Run, attempt: int) -> Iterator[_Logs]:
    """Gives a folder here for an attempt's logs; where the run's folder is not here, they go there at the end."""
    if "://" not in run.folder.uri:
        yield _Logs(Path(run.folder.uri), attempt)
        return
    with tempfile.TemporaryDirectory(prefix="slicebench-") as folder:
        try:
            yield _Logs(Path(folder), attempt)
        finally:
            for file in sorted(Path(folder).rglob("*.log")):
                run.folder.upload(str(file), str(file.relative_to(folder)))


@contextlib.contextmanager
def _backstop(run: Run, ref: WorkloadRef) -> Iterator[Callable[[], None]]:
    """Gives what begins its time: the supervisors' own begins when they do, not while the workload waits its turn."""
    limit_s = run.spec.deadlines.run_s
    if limit_s is None:
        yield lambda: None
        return
    timer = threading.Timer(limit_s + _BACKSTOP_S, run.target.stop, (ref, GRACE_S))
    timer.daemon = True
    try:
        yield timer.start
    finally:
        timer.cancel()
