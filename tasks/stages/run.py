"""Stage *run*: starts the workload, follows it to its end, and writes down how each attempt ended."""

from __future__ import annotations

import contextlib
import functools
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from runtime.contract.errors import ExitCode
from runtime.contract.names import RESULTS_FOLDER
from runtime.contract.record import record_of
from runtime.contract.redaction import Redaction
from tasks.follow import Follower
from tasks.leases.holding import Holding
from tasks.stages.attempts import Started, read_attempts, write_attempts
from tasks.stages.context import Run
from tasks.stages.files import log_folder
from tasks.stages.missing import missing_points
from tasks.stages.provision import provision
from tasks.stages.upload import upload
from tasks.targets.streams import LOST
from tasks.targets.types import (
    PREEMPTED,
    Attempt,
    Event,
    Exited,
    Outcome,
    Progress,
    State,
    Uploaded,
    WorkloadRef,
)

GRACE_S = 10.0
"""How long a workload that is stopped gets to end by itself; Prefect kills a cancelled flow after 30 s."""

_BACKSTOP_S = 120.0
"""The supervisors hold the run's deadline; when none of them does, the stage ends the workload so much later."""

OnProgress = Callable[[Progress], None]


@dataclass(frozen=True)
class _Listener:
    """Who is told of each step of the workers', and once an attempt's workers are heard for the first time."""

    progress: OnProgress
    heard: Callable[[], None]

    def listening(self, events: Iterable[Event], begun: Callable[[], None]) -> Iterator[Event]:
        """Passes events on, having told of the first that a worker is behind: states come while it waits."""
        heard = False
        for event in events:
            if not heard and not isinstance(event, State):
                heard = True
                begun()
                self.heard()
            yield event


def run_workload(
    run: Run,
    uploaded: Uploaded,
    lease: Holding,
    on_progress: OnProgress = lambda progress: None,
    once_heard: Callable[[], None] = lambda: None,
) -> Outcome:
    """Returns how the attempts ended, the last one last. A workload that failed is an Outcome, not an error.

    Called again it goes on: an attempt that still runs is followed from where its logs end. After one that
    had failed or was lost the next begins, with the points that have not passed on every worker; those that
    passed keep their samples. One that was preempted is followed by the next on new hardware, as often as the
    plan allows. When the stage has finished, what it wrote down is returned. While errors and signals unwind
    the stage, the workload is stopped first. `once_heard` is called in each attempt when its workers are up.
    Raises Fenced when the lease was lost.
    """
    finished = outcome_of(run)
    if finished is not None:
        return finished
    run.forget_from("run")  # what later stages made of an earlier attempt does not hold for the next
    listener = _Listener(on_progress, once_heard)
    attempts = read_attempts(run)
    last = attempts[-1] if attempts else None
    goes_on = last is not None and not last.end
    if last is not None and goes_on:
        if last.ref is not None:
            run.say(f"attempt {last.n} was begun before; what its workers said since nobody listened:")
        last = _play(run, uploaded, lease, attempts, last, listener)
    limit = len(attempts) - goes_on + run.plan.attempts
    # Unless it was seen just now, how the last one ended was known before: whoever calls again wants the rest.
    if last is None or not goes_on or last.end not in ("succeeded", "failed", "preempted"):
        if last is not None and goes_on:
            run.say(_how(last))
        last = _next(run, uploaded, lease, attempts, listener)
    while last.end == "preempted" and len(attempts) < limit:
        run.say(f"attempt {last.n} was preempted ({last.cause}): attempt {last.n + 1} of at most {limit}")
        uploaded = _on_new_hardware(run, uploaded, lease)
        last = _next(run, uploaded, lease, attempts, listener)
    outcome = Outcome([Attempt(one.n, one.end, one.cause) for one in attempts], _results(run))
    run.say(_how(last))
    if last.end in ("succeeded", "failed"):
        _mark(run, attempts)
    return outcome


def _how(ended: Started) -> str:
    return f"attempt {ended.n} {ended.end}" + (f": {ended.cause}" if ended.cause else "")


def something_to_measure(run: Run) -> bool:
    """Says whether the stage needs workers. Where every point has passed before, it is finished without any."""
    if run.marker("run") is not None:
        return False
    attempts = read_attempts(run)
    if not attempts or missing_points(run, attempts):
        return True
    if not attempts[-1].end:
        attempts[-1] = replace(attempts[-1], end="lost", cause="slicebench was gone when it ended")
    run.forget_from("run")  # what later stages made of an earlier attempt does not hold for the next
    _nothing_left(run, attempts)
    _mark(run, attempts)
    return False


def _nothing_left(run: Run, attempts: list[Started]) -> Started:
    """Returns the attempt by which all has passed: the last, or one that found nothing to do."""
    if attempts[-1].end != "succeeded":
        run.say("every benchmark has passed before: nothing is left to measure")
        attempts.append(Started(len(attempts) + 1, points=(), end="succeeded"))
    write_attempts(run, attempts)
    return attempts[-1]


def _mark(run: Run, attempts: Sequence[Started]) -> None:
    ends = [asdict(Attempt(one.n, one.end, one.cause)) for one in attempts]
    run.mark("run", attempts=ends, results=_results(run))


def _next(
    run: Run, uploaded: Uploaded, lease: Holding, attempts: list[Started], listener: _Listener
) -> Started:
    """Plays another attempt on what is missing; one that finds nothing missing has succeeded."""
    missing = missing_points(run, attempts)
    if not missing:
        return _nothing_left(run, attempts)
    everything = len(missing) == len(run.spec.points)
    following = Started(len(attempts) + 1, points=None if everything else missing)
    attempts.append(following)
    if not everything:
        told = ", ".join(run.spec.points[point].benchmark for point in missing)
        run.say(f"attempt {following.n}: {len(missing)} of {len(run.spec.points)} benchmarks to go: {told}")
    elif following.n > 1:
        run.say(f"attempt {following.n}: every benchmark to go")
    return _play(run, uploaded, lease, attempts, following, listener)


def outcome_of(run: Run) -> Outcome | None:
    """Returns the outcome that the finished stage wrote down, or None."""
    marker = run.marker("run")
    if marker is None:
        return None
    outputs = marker["outputs"]
    with run.reading("run"):
        return Outcome([record_of(Attempt, attempt) for attempt in outputs["attempts"]], outputs["results"])


def exit_code_of(outcome: Outcome) -> ExitCode:
    """Returns the exit code that the last attempt stands for."""
    codes = {
        "succeeded": ExitCode.DONE,
        "failed": ExitCode.WORKLOAD_FAILED,
        "interrupted": ExitCode.INTERRUPTED,
    }
    return codes.get(outcome.attempts[-1].end, ExitCode.INFRASTRUCTURE)


def how_it_ended(exits: Mapping[int, Exited]) -> tuple[str, str]:
    """Returns the end of an attempt and its root cause, from how each worker's supervisor ended. Pure."""
    if not exits:
        return "lost", "no worker said how it ended"
    by_end: dict[str, list[Exited]] = {}
    for exited in exits.values():
        by_end.setdefault(_END_OF.get(exited.code, "lost"), []).append(exited)
    end = next(end for end in ("interrupted", "lost", "failed", "succeeded") if end in by_end)
    # One that was killed can only say that; those who saw it know more.
    told = sorted(by_end[end], key=lambda exited: (exited.code == LOST, not exited.cause, exited.worker))
    return end, told[0].cause if end != "succeeded" else ""


_END_OF: Mapping[int, str] = {
    ExitCode.DONE: "succeeded",
    ExitCode.WORKLOAD_FAILED: "failed",
    ExitCode.BAD_INPUT: "failed",
    ExitCode.INTERRUPTED: "interrupted",
}


def _on_new_hardware(run: Run, uploaded: Uploaded, lease: Holding) -> Uploaded:
    """Gets hardware in the place of what was taken away, through the same lease, and brings everything there."""
    return upload(run, provision(run, lease), uploaded.image)


def _play(
    run: Run,
    uploaded: Uploaded,
    lease: Holding,
    attempts: list[Started],
    attempt: Started,
    listener: _Listener,
) -> Started:
    """Starts an attempt unless it was, follows it to its end, and writes both down."""
    write_attempts(run, attempts)
    uploaded = replace(uploaded, workload=replace(uploaded.workload, points=attempt.points))
    ref = attempt.ref or run.target.start(uploaded, attempt.n, lease)
    # Whoever asks first: over SSH it waits for each host, and Prefect does not wait long.
    stop = functools.cache(lambda: run.target.stop(ref, GRACE_S))
    try:
        attempts[attempt.n - 1] = attempt = replace(attempt, ref=ref)
        write_attempts(run, attempts)
        exits, taken = _follow(run, ref, lease, listener, stop)
    except BaseException as error:
        stop()
        ended = (
            ("lost", str(error)) if isinstance(error, Exception) else ("interrupted", type(error).__name__)
        )
        attempts[attempt.n - 1] = replace(attempt, ref=ref, end=ended[0], cause=ended[1])
        write_attempts(run, attempts)
        raise
    lease.check()  # workers that end because the lease was lost are not what a benchmark came to
    end, cause = how_it_ended(exits)
    if taken is not None and end != "succeeded":
        stop()  # what was not taken away must not go on without the rest
        end, cause = "preempted", "; ".join(part for part in (taken.reason, taken.evidence) if part)
    attempts[attempt.n - 1] = attempt = replace(attempt, end=end, cause=cause)
    write_attempts(run, attempts)
    return attempt


def _follow(
    run: Run, ref: WorkloadRef, lease: Holding, listener: _Listener, stop: Callable[[], None]
) -> tuple[Mapping[int, Exited], State | None]:
    """Follows a workload to its end, while the lease is renewed and the workers are told so.

    Returns how each worker ended, and what said that the hardware was taken away, if anything did.
    """
    states: list[State] = []
    with (
        lease.renewing(also=lambda: run.target.renew(ref)),
        _logs(run, ref.attempt) as logs,
        _backstop(run, ref) as begin_backstop,
        Follower(
            logs, run.say, listener.progress, on_state=states.append, redact=_redaction(run)
        ) as follower,
    ):
        try:
            events = run.target.follow(ref, follower.cursors())
            exits = follower.follow(listener.listening(events, begin_backstop))
            return exits, next((state for state in states if state.state == PREEMPTED), None)
        except BaseException:
            # What they say while they end is worth reading too; stopping them here makes that end.
            stop()
            with contextlib.suppress(OSError):
                follower.follow(run.target.follow(ref, follower.cursors()))
            raise


def _redaction(run: Run) -> Redaction:
    env = run.spec.env
    return Redaction(env[name] for name in run.spec.secret_env if name in env)


@contextlib.contextmanager
def _logs(run: Run, attempt: int) -> Iterator[Path]:
    """Gives a folder here for an attempt's logs; where the run's folder is not here, they go there at the end."""
    name = log_folder(attempt)
    if "://" not in run.folder.uri:
        yield Path(run.folder.uri) / name
        return
    with tempfile.TemporaryDirectory(prefix="slicebench-") as folder:
        try:
            yield Path(folder)
        finally:
            for file in sorted(Path(folder).glob("*.log")):
                run.folder.upload(str(file), f"{name}/{file.name}")


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


def _results(run: Run) -> str:
    return f"{run.folder.uri}/{RESULTS_FOLDER}"
