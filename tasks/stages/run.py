"""Stage *run*: starts the workload, follows it to its end, and writes down how each attempt ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from runtime.contract.errors import ExitCode
from runtime.contract.record import record_of
from tasks.leases.holding import Holding
from tasks.stages import leaving
from tasks.stages.attempts import Started, mark_ended, read_attempts, results_of, write_attempts
from tasks.stages.context import Run
from tasks.stages.following import GRACE_S, Listener, OnProgress, code_of, follow, judged
from tasks.stages.missing import missing_points
from tasks.stages.provision import provision
from tasks.stages.recovery import Hearing, goes_on, write_recovery
from tasks.stages.stopping import blow, finish_stop, owed, settle
from tasks.stages.upload import upload
from tasks.targets.types import RUNNING, Attempt, Outcome, Uploaded


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
    plan allows, and one that failed as often as it may for that, by a code after which it may. When the stage
    has finished, what it wrote down is returned. While errors and signals unwind the stage, the workload is
    stopped first. Where the plan says so the first attempt is left to itself, RUNNING.
    `once_heard` is called in each attempt when its workers are up. Raises Fenced when the lease was lost.
    """
    finished = outcome_of(run)
    if finished is not None:
        return finished
    run.forget_from("run")  # what later stages made of an earlier attempt does not hold for the next
    listener = Listener(on_progress, once_heard)
    attempts = read_attempts(run)
    last = attempts[-1] if attempts else None
    running = last is not None and not last.end
    if last is not None and running:
        if last.ref is not None:
            run.say(f"attempt {last.n} was begun before; what its workers said since nobody listened:")
        last = finish_stop(run, attempts) or _play(run, uploaded, lease, attempts, last, listener)
    limit = len(attempts) - running + run.plan.attempts
    # Unless it was seen just now, how the last one ended was known before: whoever calls again wants the rest.
    if last is None or not running or last.end not in ("succeeded", "failed", "preempted"):
        if last is not None and running:
            run.say(str(last))
        last = _next(run, uploaded, lease, attempts, listener)
    if last.is_left:
        return Outcome([Attempt(last.n, RUNNING)], results_of(run))
    last = _again_and_again(run, uploaded, lease, attempts, listener, last, limit)
    outcome = Outcome([Attempt(one.n, one.end, one.cause) for one in attempts], results_of(run))
    run.say(str(last))
    if last.end in ("succeeded", "failed"):
        mark_ended(run, attempts)
    return outcome


def _again_and_again(
    run: Run,
    uploaded: Uploaded,
    lease: Holding,
    attempts: list[Started],
    listener: Listener,
    last: Started,
    limit: int,
) -> Started:
    """Begins attempt after attempt while the last one allows it; returns the one that is the last of all.

    `limit`: how many there may be, those not counted that follow a stop on purpose or a failure.
    """
    restarts = 0
    while True:
        if last.stopped:
            restarts += 1
            run.say(f"{last}; it is started again, on the same hardware")
            last = _next(run, uploaded, lease, attempts, listener)
            continue
        if last.end == "preempted" and len(attempts) - restarts < limit:
            most = limit + restarts
            run.say(f"attempt {last.n} was preempted ({last.cause}): attempt {last.n + 1} of at most {most}")
        elif last.end in ("failed", "lost") and restarts < run.plan.restarts.most and _again(run, last):
            restarts += 1
            run.say(f"{last}: started again, {restarts} of at most {run.plan.restarts.most} times")
            if last.ref is not None:
                run.target.stop(last.ref, GRACE_S)  # of its workers none must still be at it
        else:
            return last
        uploaded = _on_new_hardware(run, uploaded, lease)
        last = _next(run, uploaded, lease, attempts, listener)


def _again(run: Run, last: Started) -> bool:
    return run.plan.restarts.after(last.code)


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
    mark_ended(run, attempts)
    return False


def _nothing_left(run: Run, attempts: list[Started]) -> Started:
    """Returns the attempt by which all has passed: the last, or one that found nothing to do."""
    if attempts[-1].end != "succeeded":
        run.say("every benchmark has passed before: nothing is left to measure")
        attempts.append(Started(len(attempts) + 1, points=(), end="succeeded"))
    write_attempts(run, attempts)
    return attempts[-1]


def _next(
    run: Run, uploaded: Uploaded, lease: Holding, attempts: list[Started], listener: Listener
) -> Started:
    """Plays another attempt on what is missing; one that finds nothing missing has succeeded."""
    missing = missing_points(run, attempts)
    if not missing:
        return _nothing_left(run, attempts)
    everything = len(missing) == len(run.spec.points)
    restart = goes_on(run, attempts, missing)
    following = Started(len(attempts) + 1, points=None if everything else missing, restart=restart)
    attempts.append(following)
    if not everything:
        told = ", ".join(run.spec.points[point].benchmark for point in missing)
        run.say(f"attempt {following.n}: {len(missing)} of {len(run.spec.points)} benchmarks to go: {told}")
    elif following.n > 1:
        run.say(f"attempt {following.n}: every benchmark to go")
    if restart is not None:
        where = run.spec.points[restart.point or 0].benchmark
        run.say(
            f"attempt {following.n}: {where} goes on after step {restart.begun}, from its newest checkpoint"
        )
    leave = leaving.leaves(run, following.n)
    return _play(run, uploaded, lease, attempts, following, listener, leave)


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
        RUNNING: ExitCode.DONE,
        "failed": ExitCode.WORKLOAD_FAILED,
        "interrupted": ExitCode.INTERRUPTED,
    }
    return codes.get(outcome.attempts[-1].end, ExitCode.INFRASTRUCTURE)


def _on_new_hardware(run: Run, uploaded: Uploaded, lease: Holding) -> Uploaded:
    """Gets hardware in the place of what was taken away, through the same lease, and brings everything there."""
    return upload(run, provision(run, lease), uploaded.image)


def _once(call: Callable[[], None]) -> Callable[[], None]:
    """Returns a call that is made by whoever asks first, whatever becomes of it.

    Over SSH it waits for each host, and Prefect does not wait long; of a cluster that is away it is waited for minutes,
    and whoever was interrupted in that does not begin again: what is left is given back with the lease.
    """
    asked = False

    def ask() -> None:
        nonlocal asked
        if not asked:
            asked = True
            call()

    return ask


def _play(
    run: Run,
    uploaded: Uploaded,
    lease: Holding,
    attempts: list[Started],
    attempt: Started,
    listener: Listener,
    leave: bool = False,
) -> Started:
    """Starts an attempt unless it was, follows it to its end, and writes both down; or leaves it to itself."""
    write_attempts(run, attempts)
    workload = replace(uploaded.workload, points=attempt.points, restart=attempt.restart, renewed=not leave)
    uploaded = replace(uploaded, workload=workload)
    hearing = listener.hearing = Hearing(attempt.restart, len(uploaded.workers.items), listener.taken_at)
    ref = attempt.ref or run.target.start(uploaded, attempt.n, lease)
    to_be_stopped = owed(run, attempts)
    listener.blow = blow(run, ref, hearing) if to_be_stopped else None
    hearing.started()
    stop = _once(lambda: run.target.stop(ref, GRACE_S))
    try:
        attempts[attempt.n - 1] = attempt = replace(attempt, ref=ref)
        write_attempts(run, attempts)
        if leave:
            return leaving.leave(run, lease, attempts)
        exits, taken = follow(run, ref, lease, listener, stop)
    except BaseException as error:
        if lease.left:  # it goes on, whatever became of us since
            raise
        stop()
        ended = (
            ("lost", str(error)) if isinstance(error, Exception) else ("interrupted", type(error).__name__)
        )
        attempts[attempt.n - 1] = replace(
            attempt, ref=ref, end=ended[0], cause=ended[1], reached=hearing.reached()
        )
        write_attempts(run, attempts)
        raise
    lease.check()  # workers that end because the lease was lost are not what a benchmark came to
    end, cause = judged(exits, taken, stop)
    attempts[attempt.n - 1] = attempt = replace(
        attempt, end=end, cause=cause, reached=hearing.reached(), code=code_of(exits)
    )
    write_attempts(run, attempts)
    write_recovery(run, attempt.n, hearing.recovery())
    listener.taken_at = hearing.taken_at
    return settle(run, attempts) if to_be_stopped else attempt
