"""Which deadline a session has passed, and who is to blame for that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from runtime.contract.job import Deadlines
from runtime.contract.progress import Deadline
from runtime.supervision import verdict
from runtime.supervision.session import Seat, Session


def exceeded(limits: Deadlines, session: Session, began: float, now: float) -> Deadline | None:
    """Returns the first deadline that has passed. `began` is when the run did, in seconds of the session's clock."""
    seats = session.seats
    if _over(now - began, limits.run_s):
        return _passed("run", limits.run_s, seats, verdict.stragglers(seats))
    if absent := [seat.worker for seat in seats.values() if not seat.joined]:
        late = _over(now - session.began, limits.init_s)
        return _passed("init", limits.init_s, seats, absent) if late else None
    for seat in seats.values():
        point_s = seat.deadline_s if seat.deadline_s is not None else limits.point_s
        if seat.point is not None and _over(now - seat.point_began, point_s):
            return _passed("point", point_s, seats, verdict.stragglers(seats))
        for operation, since in seat.operations.items():
            if _over(now - since, limits.operation_s):
                inside = [one.worker for one in seats.values() if operation in one.operations]
                return _passed("operation", limits.operation_s, seats, inside, operation)
    idle = not any(seat.operations for seat in seats.values())
    if idle and _over(now - session.heard, limits.operation_s):
        return _passed("silence", limits.operation_s, seats, verdict.stragglers(seats))
    return None


def words(deadline: Deadline) -> str:
    """Returns what was exceeded, for a cause."""
    limit = f"exceeded {deadline.limit_s:g} s"
    return {
        "run": f"the run {limit}",
        "init": f"joining {limit}",
        "point": f"the benchmark {limit}",
        "operation": f"operation {deadline.operation} {limit}",
        "silence": f"silence between operations {limit}",
    }[deadline.what]


def _over(passed_s: float, limit_s: float | None) -> bool:
    return limit_s is not None and passed_s > limit_s


def _passed(
    what: str, limit_s: float | None, seats: Mapping[int, Seat], workers: Iterable[int], operation: str = ""
) -> Deadline:
    assert limit_s is not None
    held_up_by = tuple(workers)
    first = seats[held_up_by[0]] if held_up_by else seats[0]
    return Deadline(what, first.worker, limit_s, operation, first.blamed_point, held_up_by)
