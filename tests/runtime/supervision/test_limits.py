"""Deadlines: which one counts, and who is said to have held up the others."""

from __future__ import annotations

import pytest

from runtime.contract.job import Deadlines
from runtime.contract.progress import Init, Operation, PointPhase
from runtime.supervision.messages import Blame, End, Finish, Start
from tests.runtime.supervision.court import POINTS, Court, in_point


@pytest.mark.parametrize(
    ("states", "waits", "first", "named"),
    [
        (("", ""), (False, False), 0, "workers 0, 1"),
        (("", ""), (True, False), 1, "worker 1; worker 0 waited"),
        (("", "stopped"), (False, False), 1, "worker 1 (stopped by SIGSTOP); worker 0 waited"),
        (("uninterruptible", ""), (False, False), 0, "worker 0 (stuck in the kernel); worker 1 waited"),
    ],
)
def test_stragglers_are_named(
    states: tuple[str, ...], waits: tuple[bool, ...], first: int, named: str
) -> None:
    court = in_point(1)
    court.wait(10.5)
    end = court.last()
    assert isinstance(end, End) and end.dump and end.deadline
    assert (end.deadline.what, end.deadline.operation, end.deadline.limit_s) == ("operation", "save", 10)
    court.ended(*states, waits=waits)
    assert court.last().blame == Blame(1, f"operation save exceeded 10 s on {named}", first)  # type: ignore[union-attr]


def test_a_points_own_deadline_wins() -> None:
    court = Court(1, Deadlines(operation_s=None, point_s=50)).gather().join()
    court.say(0, PointPhase("begin", 0, POINTS, deadline_s=2.0))
    court.wait(2.5)
    assert isinstance(court.last(), End)
    court.ended()
    assert court.last().blame == Blame(0, "the benchmark exceeded 2 s on worker 0", 0)  # type: ignore[union-attr]


def test_silence_between_operations_has_the_operations_limit() -> None:
    court = in_point(0)
    court.end(0, 0)
    court.say(1, Operation("end", 0, POINTS, operation="save"))
    court.wait(9)
    assert isinstance(court.last(), Start)
    court.wait(2)
    assert isinstance(court.last(), End)
    court.ended()
    assert court.last().blame == Blame(
        0, "silence between operations exceeded 10 s on worker 1; worker 0 waited", 1
    )  # type: ignore[union-attr]


def test_joining_that_takes_too_long_is_fatal() -> None:
    court = Court().gather()
    court.say(0, Init("begin"), Init("end"))
    court.wait(61)
    court.ended()
    last = court.last()
    assert isinstance(last, Finish)
    assert (last.code, last.cause) == (
        3,
        "the workers did not all join: joining exceeded 60 s on worker 1; worker 0 waited",
    )


def test_the_runs_deadline_ends_it_all() -> None:
    court = in_point(1, deadlines=Deadlines(run_s=5))
    court.wait(5.5)
    court.ended()
    last = court.last()
    assert isinstance(last, Finish)
    assert (last.code, last.not_run_from) == (1, 1)
    assert last.blame and last.blame.point == 1
