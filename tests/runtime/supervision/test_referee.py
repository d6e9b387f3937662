"""Judgement of sessions: when they end, whose fault it was, and where the next begins. No processes, no clock."""

from __future__ import annotations

import signal

from runtime.contract.progress import Done, Init, PointPhase
from runtime.supervision.messages import Blame, End, Ended, Finish, Left, Said, Start, Stopping
from tests.runtime.supervision.court import POINTS, Court, in_point


def test_a_session_starts_when_all_are_there() -> None:
    court = Court(3)
    court.take(court.referee.arrived(0, court.now))
    court.take(court.referee.arrived(2, court.now))
    assert court.commands == []
    court.take(court.referee.arrived(1, court.now))
    assert court.commands == [Start(1, 0, "host:1000")]


def test_all_through_is_done() -> None:
    court = in_point(2)
    court.end(2, 0, 1)
    court.say(0, Done(POINTS))
    court.leave(0, 0)
    court.say(1, Done(POINTS))
    assert isinstance(court.last(), Start)
    court.leave(1, 0)
    assert court.last() == Finish(0, points=POINTS)


def test_a_failure_ends_the_session_and_the_next_point_begins_another() -> None:
    court = in_point(1)
    court.end(1, 1, status="failed", cause="leaf differs")
    court.leave(1, 1)
    court.wait(0.5)
    assert court.last() == End(1, dump=False)
    court.ended()
    assert court.last() == Start(2, 2, "host:1001", Blame(1, "worker 1: leaf differs", 1))


def test_points_that_take_turns_go_on_without_the_one_that_failed() -> None:
    court = Court(2).gather().join()
    for point in (0, 1):
        court.begin(point, 0, 1)
        court.end(point, 0, 1, status="paused")
    court.begin(0, 0, 1)
    court.end(0, 1, status="failed", cause="leaf differs")
    court.leave(1, 1)
    court.wait(0.5)
    court.ended()
    assert court.last() == Start(2, 1, "host:1001", Blame(0, "worker 1: leaf differs", 1))


def test_a_crash_between_turns_costs_the_point_whose_turn_it_was() -> None:
    court = Court(1).gather().join()
    court.begin(0, 0)
    court.end(0, 0, status="paused")
    court.begin(1, 0)
    court.end(1, 0, status="paused")
    court.leave(0, -signal.SIGSEGV)
    court.wait(2)
    court.ended()
    started = court.last()
    assert isinstance(started, Start) and started.blame is not None
    assert (started.first_point, started.blame.point) == (0, 1)


def test_once_all_have_had_their_last_turn_a_failure_goes_on_with_what_comes_after() -> None:
    court = Court(1).gather().join()
    for status in ("paused", "passed"):
        for point in (0, 1):
            court.begin(point, 0)
            court.end(point, 0, status=status)
    court.begin(2, 0)
    court.leave(0, -signal.SIGSEGV)
    court.wait(2)
    court.ended()
    finished = court.last()
    assert isinstance(finished, Finish) and finished.blame is not None and finished.blame.point == 2


def test_who_is_a_turn_behind_holds_up_the_others() -> None:
    court = Court(2).gather().join()
    for point in (0, 1):
        court.begin(point, 0, 1)
        court.end(point, 0, status="paused")
    court.begin(0, 0)  # worker 1 is still in the turn before, of a later point
    seats = court.referee._session.seats
    assert min(seats.values(), key=lambda seat: seat.position).worker == 1


def test_only_some_points_begin_with_the_first_and_go_on_with_the_next_of_them() -> None:
    court = Court(only=(1, 2)).gather().join()
    assert court.last() == Start(1, 1, "host:1000")
    court.begin(1, 0)
    court.leave(1, -signal.SIGSEGV)
    court.wait(2)
    court.ended()
    started = court.last()
    assert isinstance(started, Start)
    assert started.blame is not None
    assert (started.first_point, started.blame.point) == (2, 1)


def test_a_failure_in_the_last_of_some_points_finishes() -> None:
    court = Court(only=(0, 1)).gather().join()
    court.begin(0, 0, 1)
    court.end(0, 0, 1)
    court.begin(1, 0, 1)
    court.end(1, 1, status="failed", cause="leaf differs")
    court.leave(1, 1)
    court.wait(0.5)
    court.ended()
    assert court.last() == Finish(
        1,
        "benchmark 2 of 3 failed: worker 1: leaf differs",
        Blame(1, "worker 1: leaf differs", 1),
        points=POINTS,
    )


def test_who_dies_after_the_last_of_some_points_does_no_harm_to_those_it_was_not_to_run() -> None:
    court = Court(only=(0,)).gather().join()
    court.begin(0, 0, 1)
    court.end(0, 0, 1)
    court.leave(1, -signal.SIGSEGV)
    court.wait(2)
    court.ended()
    finish = court.last()
    assert isinstance(finish, Finish)
    assert (finish.code, finish.blame) == (1, None)


def test_a_failure_in_the_last_point_finishes() -> None:
    court = in_point(2)
    court.end(2, 1, status="failed", cause="leaf differs")
    court.wait(0.5)
    court.ended()
    blame = Blame(2, "worker 1: leaf differs", 1)
    assert court.last() == Finish(1, f"benchmark 3 of 3 failed: {blame.cause}", blame, None, POINTS)


def test_a_cause_that_comes_late_beats_its_echo() -> None:
    court = in_point(1)
    court.end(1, 0, status="failed", cause="Gloo AllReduce failed: Connection closed by peer")
    court.wait(0.6)
    court.leave(1, -signal.SIGSEGV)
    court.wait(1.0)
    court.ended()
    assert isinstance(court.last(), Start)
    assert court.last().blame == Blame(1, "worker 1 was killed by SIGSEGV while in save", 1)  # type: ignore[union-attr]


def test_an_echo_alone_is_the_cause_and_asks_for_stacks() -> None:
    court = in_point(1)
    court.end(1, 0, status="failed", cause="Connection reset by peer")
    court.wait(1.2)
    assert court.last() == End(1, dump=True)
    court.ended()
    assert court.last().blame == Blame(1, "worker 0: Connection reset by peer", 0)  # type: ignore[union-attr]


def test_memory_that_ran_out_is_told() -> None:
    court = in_point(1, workers=1)
    court.leave(0, -signal.SIGKILL, oom=True)
    court.wait(0.5)
    court.ended()
    assert "ran out of memory in save" in court.last().blame.cause  # type: ignore[union-attr]


def test_a_worker_that_dies_between_points_costs_the_next() -> None:
    court = in_point(0)
    court.end(0, 0, 1)
    court.leave(1, -signal.SIGKILL)
    court.wait(1.2)
    court.ended()
    assert court.last() == Start(
        2, 2, "host:1001", Blame(1, "worker 1 was killed by SIGKILL before benchmark 2 of 3", 1)
    )


def test_sessions_always_get_further() -> None:
    court = Court(1).gather()
    first_points = []
    for _ in range(POINTS + 1):
        if isinstance(court.last(), Finish):
            break
        first_points.append(court.last().first_point)  # type: ignore[union-attr]
        court.join()
        court.begin(first_points[-1], 0)
        court.leave(0, -signal.SIGSEGV)
        court.wait(1.2)
        court.ended()
    assert first_points == [0, 1, 2]
    assert isinstance(court.last(), Finish) and court.last().code == 1
    assert "(and 2 more)" in court.last().cause


def test_workers_that_are_through_but_stay_are_ended_without_blame() -> None:
    court = in_point(2)
    court.end(2, 0, 1)
    court.say(0, Done(POINTS))
    court.say(1, Done(POINTS))
    court.leave(0, 0)
    court.wait(31)
    assert court.last() == End(1, dump=False)
    court.ended()
    assert court.last() == Finish(0, points=POINTS)


def test_a_worker_that_fails_before_word_came_that_another_has_joined_fails_its_point() -> None:
    court = Court().gather()
    court.say(1, Init("begin"), Init("end"))
    court.begin(0, 1)
    court.end(0, 1, status="failed", cause="leaf a/b differs")
    court.leave(1, 1)
    court.wait(2)
    court.ended()
    last = court.last()
    assert isinstance(last, Start)
    assert (last.first_point, last.blame) == (1, Blame(0, "worker 1: leaf a/b differs", 1))


def test_a_lost_supervisor_ends_it_all_even_while_others_fail() -> None:
    court = in_point(1)
    court.end(1, 0, status="failed", cause="Connection closed by peer")
    court.take(court.referee.lost(1, "its connection closed", court.now))
    cause = "lost the supervisor of worker 1 in save of benchmark 2 of 3: its connection closed"
    assert court.last() == Finish(3, cause, Blame(1, cause), 1, POINTS)
    before = len(court.commands)
    court.wait(5)
    court.leave(0, 1)
    assert len(court.commands) == before


def test_one_that_stops_stops_all() -> None:
    court = in_point(1)
    court.take(court.referee.report(1, Stopping(130, "told to stop"), court.now))
    assert court.last() == Finish(130, "told to stop", Blame(1, "told to stop"), 1, POINTS)


def test_reports_of_an_earlier_session_are_not_heard() -> None:
    court = in_point(1)
    court.leave(1, -signal.SIGKILL)
    court.wait(1.2)
    court.ended()
    assert court.session == 2
    court.take(court.referee.report(0, Left(1, -signal.SIGABRT), court.now))
    court.take(court.referee.report(0, Said(1, PointPhase("end", 1, POINTS, status="failed")), court.now))
    court.wait(2)
    assert isinstance(court.last(), Start)


def test_a_point_that_could_not_run_is_not_success() -> None:
    court = in_point(2, workers=1)
    court.end(2, 0, status="not_run", cause="needs Pathways")
    court.say(0, Done(POINTS))
    court.leave(0, 3)
    assert court.last() == Finish(3, "benchmark 3 of 3 was not run: needs Pathways", None, None, POINTS)


def test_an_agreed_failure_goes_on() -> None:
    court = in_point(0)
    court.end(0, 0, 1, status="failed", cause="no such checkpoint")
    court.begin(1, 0, 1)
    court.wait(2)
    assert isinstance(court.last(), Start)
    court.end(1, 0, 1)
    court.begin(2, 0, 1)
    court.end(2, 0, 1)
    for worker in (0, 1):
        court.say(worker, Done(POINTS, 1))
        court.leave(worker, 1)
    assert court.last() == Finish(
        1, "benchmark 1 of 3 failed: worker 0: no such checkpoint", None, None, POINTS
    )


def test_a_supervisor_that_does_not_end_its_worker_is_told() -> None:
    court = in_point(1)
    court.leave(1, -signal.SIGKILL)
    court.wait(1.2)
    court.take(court.referee.report(1, Ended(1), court.now))
    court.wait(31)
    assert isinstance(court.last(), Finish)
    assert court.last().cause == "the supervisors of worker 0 did not end them within 30 s"


def test_what_is_judged_of_a_point_is_told_once_and_at_once() -> None:
    court = in_point(1)
    court.end(1, 1, status="failed", cause="Connection closed by peer")
    court.leave(0, -signal.SIGKILL)
    assert court.referee.news() == [], "nothing is told before it is judged"
    court.wait(1.2)
    court.ended()
    told = "benchmark 2 of 3 failed: worker 0 was killed by SIGKILL while in save"
    assert (court.referee.news(), court.referee.news()) == ([told], [])
    alone = in_point(0, workers=1)
    alone.end(0, 0, status="failed", cause="boom")
    alone.end(1, 0, status="not_run", cause="needs a moon")
    assert alone.referee.news() == [
        "benchmark 1 of 3 failed: boom",
        "benchmark 2 of 3 was not run: needs a moon",
    ]
