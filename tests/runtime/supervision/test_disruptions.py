"""Disruptions that a suite asks for: when they fall, what the next session is told, and what is no disruption."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from runtime.contract.disruption import Disruption, Restart
from runtime.contract.job import Deadlines
from runtime.contract.progress import Done, Operation, PointPhase, Step, StepState
from runtime.supervision.messages import End, Ended, Finish, Start, Strike
from tests.runtime.supervision.court import POINTS, Court


def disrupted(deadlines: Deadlines | None = None, *, workers: int = 2, **asked: Any) -> Court:
    """Workers of which all have begun point 0, in which they are disrupted as `asked`."""
    court = Court(workers, deadlines).gather().join()
    begin(court, **asked)
    return court


def begin(court: Court, point: int = 0, **asked: Any) -> None:
    for worker in range(court.workers):
        court.say(worker, PointPhase("begin", point, POINTS, disruption=asked, deadline_s=30.0))


def step(court: Court, state: StepState, step: int, *workers: int, repeat: int = 0) -> None:
    for worker in workers or range(court.workers):
        court.say(worker, Step(state, 0, POINTS, repeat, step))


def struck(court: Court) -> list[Strike]:
    return [command for command in court.commands if isinstance(command, Strike)]


def fall(court: Court, worker: int, code: int = -signal.SIGKILL) -> None:
    court.leave(worker, code)
    court.wait(1.5)
    assert isinstance(court.last(), End)
    court.ended()


def test_a_worker_is_struck_once_all_have_saved_the_step_and_the_session_goes_on_there() -> None:
    court = disrupted(worker=1, at_step=2)
    step(court, "begun", 2)
    step(court, "saved", 2, 0)
    assert struck(court) == []
    step(court, "saved", 2, 1)
    assert struck(court) == [Strike(1, (1,), "SIGKILL")]
    assert court.referee.news() == ["benchmark 1 of 3: disrupted in repeat 1: SIGKILL to worker 1"]
    step(court, "begun", 3, 0)
    fall(court, 1)
    assert court.last() == Start(2, 0, "host:1001", None, Restart(repeat=0, saved=2, begun=3))
    assert court.referee.news() == [], "it is no failure"


def test_each_repeat_is_disrupted_once() -> None:
    court = disrupted(worker=0, at_step=1)
    step(court, "saved", 1)
    fall(court, 0)
    court.join()
    begin(court, worker=0, at_step=1)
    step(court, "resumed", 1)
    step(court, "saved", 2)
    assert len(struck(court)) == 1
    step(court, "saved", 1, repeat=1)
    assert len(struck(court)) == 2
    fall(court, 0)
    last = court.last()
    assert isinstance(last, Start) and last.restart
    assert (last.restart.repeat, last.restart.saved) == (1, 1)


def test_a_point_that_passes_after_its_disruption_has_passed() -> None:
    court = disrupted(worker=0, at_step=1)
    step(court, "saved", 1)
    fall(court, 0)
    court.join()
    begin(court, worker=0, at_step=1)
    for point in range(POINTS):
        court.end(point, 0, 1)
    for worker in (0, 1):
        court.say(worker, Done(POINTS))
        court.leave(worker, 0)
    assert court.last() == Finish(0, points=POINTS)


def test_a_worker_is_struck_while_the_step_is_being_saved() -> None:
    court = disrupted(worker=0, at_step=2, moment="saving")
    step(court, "saved", 1)
    step(court, "begun", 2, 0)
    assert struck(court) == []
    step(court, "begun", 2, 1)
    assert len(struck(court)) == 1
    fall(court, 0)
    last = court.last()
    assert isinstance(last, Start)
    assert last.restart == Restart(0, saved=1, begun=2)


def test_time_counts_from_the_first_step_of_the_last_worker() -> None:
    court = disrupted(worker="all", after_s=5.0)
    court.wait(3)
    step(court, "begun", 0, 0)
    court.wait(3)
    step(court, "begun", 0, 1)
    court.wait(4.5)
    assert struck(court) == []
    court.wait(1)
    assert struck(court) == [Strike(1, (0, 1), "SIGKILL")]
    court.leave(0, -signal.SIGKILL)
    fall(court, 1)
    last = court.last()
    assert isinstance(last, Start)
    assert last.restart == Restart(0, saved=None, begun=0), "nothing was complete"


def test_who_is_struck_counts_and_not_the_errors_it_causes_elsewhere() -> None:
    court = disrupted(worker=1, at_step=1)
    step(court, "saved", 1)
    court.say(0, PointPhase("end", 0, POINTS, status="failed", cause="ValueError: something strange"))
    court.leave(0, 1)
    court.wait(1)
    assert isinstance(court.last(), Strike), "the one that was struck is waited for"
    fall(court, 1)
    assert isinstance(court.last(), Start)
    assert court.last().restart  # type: ignore[union-attr]


def test_one_that_was_struck_and_is_slow_to_tell_has_fallen() -> None:
    court = disrupted(worker=1, at_step=1)
    step(court, "saved", 1)
    court.say(0, PointPhase("end", 0, POINTS, status="failed", cause="Gloo AllGather failed"))
    court.leave(0, 1)
    court.wait(11)
    assert isinstance(court.last(), End)
    for worker in range(2):
        court.take(court.referee.report(worker, Ended(1, struck=worker == 1), court.now))
    assert isinstance(court.last(), Start)
    assert court.last().restart  # type: ignore[union-attr]


def test_a_worker_that_is_a_point_behind_keeps_nobody_from_being_struck() -> None:
    asked = {"worker": 1, "at_step": 1}
    court = Court().gather().join()
    court.begin(0, 0)
    court.end(0, 0)
    court.say(0, PointPhase("begin", 1, POINTS, disruption=asked), Step("saved", 1, POINTS, 0, 1))
    court.begin(0, 1)
    court.end(0, 1)
    assert struck(court) == []
    court.say(1, PointPhase("begin", 1, POINTS, disruption=asked), Step("saved", 1, POINTS, 0, 1))
    assert len(struck(court)) == 1


def test_alone_it_may_complain_before_it_goes() -> None:
    court = disrupted(workers=1, worker=0, at_step=1, signal="SIGTERM")
    step(court, "saved", 1)
    court.say(0, PointPhase("end", 0, POINTS, status="failed", cause="terminated"))
    fall(court, 0, 1)
    last = court.last()
    assert isinstance(last, Start) and last.restart


@pytest.mark.parametrize("code", [1, -signal.SIGSEGV])
def test_a_worker_that_dies_of_something_else_has_failed(code: int) -> None:
    court = disrupted(worker=1, at_step=1)
    step(court, "saved", 1)
    fall(court, 1, code)
    last = court.last()
    assert isinstance(last, Start)
    assert (last.first_point, last.restart) == (1, None)
    assert last.blame and "worker 1" in last.blame.cause


def test_a_worker_that_dies_before_its_disruption_has_failed() -> None:
    court = disrupted(worker=1, at_step=1)
    step(court, "saved", 0)
    fall(court, 1)
    last = court.last()
    assert isinstance(last, Start)
    assert (last.first_point, last.restart) == (1, None)


def test_the_deadline_of_a_point_counts_on_over_its_disruption() -> None:
    court = disrupted(worker=0, at_step=1)
    court.wait(9)
    step(court, "saved", 1)
    fall(court, 0)
    court.wait(5)
    court.join()
    begin(court, worker=0, at_step=1)
    for _ in range(3):
        court.say(0, Operation("begin", 0, POINTS, operation="save"))
        court.say(0, Operation("end", 0, POINTS, operation="save"))
        court.wait(5)
    assert isinstance(court.last(), End)
    assert court.last().deadline.what == "point"  # type: ignore[union-attr]


def test_words_say_what_is_done_to_whom_and_when() -> None:
    assert Disruption(1, at_step=3).words == "SIGKILL to worker 1 once step 3 is saved"
    assert (
        Disruption(1, at_step=3, moment="saving").words == "SIGKILL to worker 1 while step 3 is being saved"
    )
    assert Disruption("all", after_s=2.5, signal="SIGTERM").words == (
        "SIGTERM to all workers 2.5 s after the first step began"
    )


def test_a_restart_survives_its_flag_and_nothing_else_passes_for_one() -> None:
    restart = Restart(2, None, 4, 1.5, 2.25)
    assert Restart.of(restart.to_json()) == restart
    for text in ('{"repeat": 1}', '{"other": 1}', "[]", "x"):
        with pytest.raises(ValueError):
            Restart.of(text)
