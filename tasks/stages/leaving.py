"""A workload that is left to itself: handed to the lease once it is started, and followed when somebody comes back.

Whoever comes back has it in hand until it has ended; who is interrupted meanwhile leaves it as it was found.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import replace

from runtime.contract.pod import start_file
from tasks.cloud.storage import is_there
from tasks.config.commands import resume
from tasks.leases.holding import Fenced, Holding
from tasks.leases.left import NOTE, Left, commands, told
from tasks.leases.shares import shared_by, users
from tasks.stages.attempts import Started, mark_ended, read_attempts, write_attempts
from tasks.stages.context import Run
from tasks.stages.following import GRACE_S, Listener, OnProgress, follow, judged
from tasks.stages.recovery import Hearing
from tasks.targets.types import WaitedTooLong

STARTED_AGAIN = "its cluster started it again while nobody followed it"


def leaves(run: Run, attempt: int) -> bool:
    """Says whether an attempt is left to itself: the first. Whoever comes back for the run follows what comes next."""
    return run.plan.left_s is not None and attempt == 1


def leave(run: Run, lease: Holding, attempts: list[Started]) -> Started:
    """Hands the last attempt, which is started, to the lease; returns it. From then on nothing of it is ours.

    It is written down first: of one who is killed in between nothing stays, and it is known what was meant.
    """
    until = time.time() + _left_s(run, lease)
    attempts[-1] = replace(attempts[-1], left_until=until)
    write_attempts(run, attempts)
    lease.leave(until, NOTE)
    ref = attempts[-1].ref
    assert ref is not None
    left = Left(ref.name, ref.scope, until)
    run.say(told(left))
    for what, command in commands(left, run.folder.uri, lease.lease.name):
        run.say(f"{what}: {command}")
    return attempts[-1]


def _left_s(run: Run, lease: Holding) -> float:
    """Returns for how long the workload is left to itself: who has made machines for it alone pays for its waiting."""
    assert run.plan.left_s is not None
    alone_s, own = run.plan.left_alone_s, lease.lease
    shared = [lease.ledger.read(one) for one in shared_by(own)]
    alone = shared and all(one and users(lease.ledger, one) == [own.lease_id] for one in shared)
    return alone_s if alone and alone_s is not None else run.plan.left_s


def is_left(run: Run) -> bool:
    """Says whether an earlier pass left a workload to itself, of which nobody knows yet how it ended."""
    attempts = read_attempts(run)
    return bool(attempts) and attempts[-1].is_left


def come_back(
    run: Run,
    lease: Holding,
    on_progress: OnProgress = lambda progress: None,
    once_heard: Callable[[], None] = lambda: None,
) -> None:
    """Follows what was left to itself to its end, and writes that down; one that is gone has left its last words.

    It needs no hardware but its own. Raises Fenced when the lease was lost. A signal, or a cluster that does not answer
    for too long, leaves the workload to its lease as it was; one that waited too long for its turn is given up.
    """
    attempts = _with_starts(run, read_attempts(run))
    last = attempts[-1]
    ref, until = last.ref, last.left_until
    assert ref is not None and until is not None
    run.say(f"attempt {last.n} was left to itself; what its workers said since nobody listened:")
    stop = functools.cache(lambda: run.target.stop(ref, GRACE_S))
    hearing = Hearing(last.restart, run.plan.workers, None)
    try:
        exits, taken = follow(run, ref, lease, Listener(on_progress, once_heard, hearing), stop=None)
        lease.check()  # workers that end because the lease was lost are not what a benchmark came to
        end, cause = judged(exits, taken, stop)
    except Fenced:  # it is in other hands
        raise
    except BaseException as error:
        if not isinstance(error, WaitedTooLong) and lease.lease.stands and time.time() < until:
            lease.leave(until, NOTE)
            run.say(f"JobSet {ref.name} goes on by itself; come back with: {resume(run.folder.uri)}")
            raise
        stop()
        ours = isinstance(error, Exception)
        attempts = _with_starts(run, attempts)
        attempts[-1] = replace(
            attempts[-1],
            end="lost" if ours else "interrupted",
            cause=str(error) if ours else type(error).__name__,
        )
        write_attempts(run, attempts)
        raise
    attempts = _with_starts(run, attempts)  # a start that came meanwhile is the one that ended so
    attempts[-1] = last = replace(attempts[-1], end=end, cause=cause, reached=hearing.reached())
    write_attempts(run, attempts)
    lease.fall()
    run.say(str(last))
    if end in ("succeeded", "failed"):
        mark_ended(run, attempts)


def _with_starts(run: Run, attempts: list[Started]) -> list[Started]:
    """Returns the attempts with those that the cluster began by itself since: each start has its results to itself.

    It does so where hardware was taken away, or a failure may be tried again: what was measured before does not count.
    """
    attempts = list(attempts)
    while is_there(run.folder, start_file(attempts[-1].n + 1)):
        last = attempts[-1]
        assert last.ref is not None
        n = last.n + 1
        attempts[-1] = replace(last, end="preempted", cause=STARTED_AGAIN)
        attempts.append(replace(last, n=n, ref=replace(last.ref, attempt=n)))
    return attempts
