"""Finds the root cause among what the workers of a failed session told: never the error it caused on a neighbour."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping, Sequence

from runtime.contract.counting import said_by
from runtime.supervision.messages import Left
from runtime.supervision.processes import STOPPED, UNINTERRUPTIBLE
from runtime.supervision.session import CONSEQUENCE, KILLED, SAID, SILENT, Seat, Witness

_LONGEST_CAUSE = 1000

# What a worker says when another one failed it: texts of JAX, Gloo, gRPC and Orbax's barriers.
_CONSEQUENCE = re.compile(
    r"another task died|tasks are unhealthy|heartbeat timeout|stopped sending heartbeats|coordination service"
    r"|Connection closed by peer|Connection reset by peer|Gloo \w+ failed|sync_global_devices name mismatch"
    r"|(waiting for|reached|failed in|timed out).{0,60}barrier|barrier.{0,60}(timed out|failed|error)"
    r"|distributed service detected fatal errors|UNAVAILABLE: .{0,80}(connect|socket|peer|task)",
    re.IGNORECASE | re.DOTALL,
)


def is_consequence(text: str) -> bool:
    """Says whether an error reads like the echo of another worker's failure."""
    return bool(_CONSEQUENCE.search(text))


def of_failure(seat: Seat, point: int, cause: str, workers: int) -> Witness:
    """Returns the account of a worker that said why its point failed."""
    rank = CONSEQUENCE if is_consequence(cause) else SAID
    cause = " ".join(cause.split())[:_LONGEST_CAUSE] or "no reason given"
    told = said_by(f"worker {seat.worker}", cause) if workers > 1 else cause
    return Witness(seat.worker, point, told, rank)


def of_exit(seat: Seat, left: Left) -> Witness:
    """Returns the account of a worker whose process went away without a word."""
    who = f"worker {seat.worker}"
    if left.code < 0:
        name = _signal_name(-left.code)
        cause = f"{who} was killed by {name} {'while ' if seat.operations else ''}{seat.place}"
        if left.code == -signal.SIGKILL and left.out_of_memory:
            cause = f"{who} ran out of memory {seat.place}: the kernel's out-of-memory killer ended it"
        if left.code == -signal.SIGABRT:
            told = f": {left.last_words}" if left.last_words else ""
            return Witness(
                seat.worker,
                seat.blamed_point,
                cause + told,
                CONSEQUENCE if is_consequence(left.tail) else KILLED,
            )
        return Witness(seat.worker, seat.blamed_point, cause, KILLED)
    cause = f"{who} exited with code {left.code} {seat.place}"
    if left.code == 0:
        return Witness(seat.worker, seat.blamed_point, f"{cause}, not through its suite", SILENT)
    told = f": {left.last_words}" if left.last_words else ""
    rank = CONSEQUENCE if is_consequence(left.tail) else SILENT
    return Witness(seat.worker, seat.blamed_point, cause + told, rank)


def root(witnesses: Sequence[Witness]) -> Witness:
    """Returns the first true cause; the first of all when each may be a consequence."""
    return min(enumerate(witnesses), key=lambda item: (item[1].rank, item[0]))[1]


def stragglers(seats: Mapping[int, Seat]) -> list[int]:
    """Returns the workers that hold up the others, by how far they came, how they were found, and their stacks."""
    active = [seat for seat in seats.values() if not seat.done]
    if unwell := [seat.worker for seat in active if _unwell(seat)]:
        return unwell
    if not active:
        return []
    least = min(seat.position for seat in active)
    behind = [seat for seat in active if seat.position == least]
    if len(behind) == len(active):
        busy = [seat.worker for seat in behind if seat.ended and not seat.ended.waits]
        if busy:
            return busy
    return [seat.worker for seat in behind]


def of_stall(seats: Mapping[int, Seat], what: str) -> Witness | None:
    """Returns who stood still and how the others fared, `what` saying what was exceeded."""
    held_up = stragglers(seats)
    if not held_up:
        return None
    first = seats[held_up[0]]
    others = [seat.worker for seat in seats.values() if seat.worker not in held_up and not seat.left]
    cause = f"{what} on {name_workers(held_up, seats)}"
    if others:
        cause += f"; {name_workers(others)} waited"
    return Witness(first.worker, first.blamed_point, cause, SAID)


def of_unwell(seats: Mapping[int, Seat]) -> Witness | None:
    """Returns the account of a worker that was found stopped or unkillable: what its neighbours died of."""
    for seat in seats.values():
        if _unwell(seat):
            assert seat.ended
            return Witness(
                seat.worker, seat.blamed_point, f"worker {seat.worker} was {_words(seat)} {seat.place}", SAID
            )
    return None


def name_workers(workers: Sequence[int], seats: Mapping[int, Seat] | None = None) -> str:
    """Returns e.g. `worker 1 (stopped)` or `workers 0, 2`."""
    named = [f"{worker}{_how(seats[worker]) if seats else ''}" for worker in workers]
    return f"worker{'s' if len(named) > 1 else ''} {', '.join(named)}"


def _how(seat: Seat) -> str:
    return f" ({_words(seat)})" if _unwell(seat) else ""


def _words(seat: Seat) -> str:
    assert seat.ended
    return {STOPPED: "stopped by SIGSTOP", UNINTERRUPTIBLE: "stuck in the kernel"}[seat.ended.state]


def _unwell(seat: Seat) -> bool:
    return seat.ended is not None and seat.ended.state in (STOPPED, UNINTERRUPTIBLE)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
