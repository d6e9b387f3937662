"""Supervisor 0's judgement: when a session starts, when it has failed, by whose fault, and what comes next.

A state machine without I/O: told what happened and at what time, and returns the commands for all
supervisors.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection

from runtime.contract.disruption import Restart
from runtime.contract.errors import ExitCode
from runtime.contract.job import Deadlines
from runtime.contract.progress import Done, FromWorker, PointPhase, Step
from runtime.supervision import limits, verdict
from runtime.supervision.disruptions import Disruptions
from runtime.supervision.messages import (
    Blame,
    Command,
    End,
    Ended,
    Finish,
    Left,
    Report,
    Said,
    Start,
    Stopping,
    Strike,
)
from runtime.supervision.session import Seat, Session, Witness
from runtime.supervision.tally import Tally

_SETTLE_S = 0.3
_SETTLE_LONG_S = 1.0
"""How long others may still tell their side: longer when all that is known may be a consequence."""

_FALLING_S = 10.0
"""How long workers that were struck on purpose may take to go: until then nobody else's account counts."""

_ENDING_S = 30.0
"""How long a supervisor may take to dump stacks and kill its worker."""

_LEAVING_S = 30.0
"""How long workers that are through their suite may take to exit."""


class _Stage(enum.Enum):
    GATHERING = enum.auto()
    RUNNING = enum.auto()
    SETTLING = enum.auto()
    ENDING = enum.auto()
    FINISHED = enum.auto()


class Referee:
    """Judges the sessions of one attempt. `coordinator` returns a fresh host:port for JAX, if needed.

    `only` are the points that workers run, of those that the suite has; None: all.

    Every method takes the time in seconds of a monotonic clock and returns commands that go to all
    supervisors, in order. After a Finish it returns none.
    """

    def __init__(
        self,
        workers: int,
        deadlines: Deadlines,
        coordinator: Callable[[], str | None],
        now: float,
        only: Collection[int] | None = None,
    ) -> None:
        self._deadlines = deadlines
        self._coordinator = coordinator
        self._began = now
        self._stage = _Stage.GATHERING
        self._here: set[int] = set()
        self._workers = workers
        self._session = Session(0, now)
        self._until = now
        self._tally = Tally(only)
        self._disruptions = Disruptions(workers)

    @property
    def finished(self) -> bool:
        """Whether the last command was given."""
        return self._stage is _Stage.FINISHED

    def news(self) -> list[str]:
        """Returns what was judged of points since the last call, a line each, for people."""
        return self._tally.news()

    def arrived(self, worker: int, now: float) -> list[Command]:
        """A supervisor is there."""
        self._here.add(worker)
        if self._stage is _Stage.GATHERING and len(self._here) == self._workers:
            return self._start(self._tally.first_from(0), None, now)
        return []

    def lost(self, worker: int, why: str, now: float) -> list[Command]:
        """A supervisor cannot be reached any more: without it nothing can go on."""
        del now
        where = ""
        if seat := self._session.seats.get(worker):
            where = f" {seat.place}" + ("" if seat.point is None else f" of {self._tally.named(seat.point)}")
        return self._abandon(ExitCode.INFRASTRUCTURE, f"lost the supervisor of worker {worker}{where}: {why}")

    def report(self, worker: int, report: Report, now: float) -> list[Command]:
        """A supervisor told something."""
        if isinstance(report, Stopping):
            return self._abandon(report.code, report.cause)
        if self.finished or not isinstance(report, Said | Left | Ended):
            return []
        if report.session != self._session.number:
            return []
        seat = self._session.seats[worker]
        if isinstance(report, Said):
            return self._said(seat, report.body, now) if self._stage in _LISTENING else []
        if isinstance(report, Left):
            return self._left(seat, report, now)
        seat.ended = report
        if self._stage is _Stage.ENDING and all(one.ended for one in self._session.seats.values()):
            return self._conclude(now)
        return []

    def tick(self, now: float) -> list[Command]:
        """Time has passed."""
        if self._stage is _Stage.GATHERING:
            limit = self._deadlines.init_s
            if limit is not None and now - self._began > limit:
                missing = sorted(set(range(self._workers)) - self._here)
                cause = f"{verdict.name_workers(missing)} did not arrive within {limit:g} s"
                return self._abandon(ExitCode.INFRASTRUCTURE, cause)
        elif self._stage is _Stage.RUNNING:
            if all(seat.done for seat in self._session.seats.values()):
                return self._end(now, dump=False) if now - self._session.heard > _LEAVING_S else []
            passed = limits.exceeded(self._deadlines, self._session, self._began, now)
            self._session.deadline = passed
            return self._end(now, dump=True) if passed else self._disrupt(now)
        elif self._stage is _Stage.SETTLING and now >= self._until:
            return self._end(now, dump=not verdict.root(self._session.witnesses).clear)
        elif self._stage is _Stage.ENDING and now >= self._until:
            silent = [seat.worker for seat in self._session.seats.values() if not seat.ended]
            return self._abandon(
                ExitCode.INFRASTRUCTURE,
                f"the supervisors of {verdict.name_workers(silent)} did not end them within {_ENDING_S:g} s",
            )
        return []

    def _start(
        self, first_point: int, blame: Blame | None, now: float, restart: Restart | None = None
    ) -> list[Command]:
        self._stage = _Stage.RUNNING
        of = self._tally.points
        seats = [Seat(worker, next_point=first_point, points=of) for worker in range(self._workers)]
        self._session = Session(self._session.number + 1, now, seats)
        return [Start(self._session.number, first_point, self._coordinator(), blame, restart)]

    def _said(self, seat: Seat, body: FromWorker, now: float) -> list[Command]:
        self._session.told(seat.worker, body, now)
        if isinstance(body, PointPhase | Done):
            self._tally.learn(body)
        match body:
            case PointPhase(phase="begin"):
                self._went_on(seat)
                seat.point_began = self._disruptions.point_began(body, now)
            case PointPhase(phase="end", status="paused"):
                seat.next_point = body.point
                self._tally.paused(body.point)
            case PointPhase(phase="end"):
                self._tally.ended(body.point)
                seat.next_point = self._tally.following(body.point)
                if body.status == "failed":
                    return self._point_failed(seat, body, now)
                if body.status == "not_run":
                    self._tally.not_run(body.point, body.cause)
            case Step():
                self._disruptions.stepped(seat.worker, body, now)
                return self._disrupt(now)
            case Done():
                self._went_on(seat)
        return []

    def _point_failed(self, seat: Seat, body: PointPhase, now: float) -> list[Command]:
        witness = verdict.of_failure(seat, body.point, body.cause, self._workers)
        if self._workers == 1:  # nobody waits for it in a collective: it goes on by itself
            if not self._disruptions.falling(self._session.seats):
                self._tally.failed(witness.point, witness.cause)
            return []
        return self._settle(witness, now)

    def _disrupt(self, now: float) -> list[Command]:
        blow = self._disruptions.due(now) if self._stage is _Stage.RUNNING else None
        if blow is None:
            return []
        self._tally.tell(f"{self._tally.named(blow.point)}: {blow.words}")
        return [Strike(self._session.number, blow.workers, blow.signal)]

    def _went_on(self, seat: Seat) -> None:
        """A worker whose point failed is at the next: all had agreed that it failed, and nobody is stuck in it."""
        for witness in self._session.accounts(seat.worker):
            self._tally.failed(witness.point, witness.cause)
            self._session.witnesses.remove(witness)
        if self._stage is _Stage.SETTLING and not self._session.witnesses:
            self._stage = _Stage.RUNNING

    def _left(self, seat: Seat, left: Left, now: float) -> list[Command]:
        seat.left = left
        if self._stage not in _LISTENING:
            return []
        if not seat.done and not self._session.accounts(seat.worker):
            return self._settle(verdict.of_exit(seat, left), now)
        if self._stage is _Stage.RUNNING and all(
            one.left and one.done for one in self._session.seats.values()
        ):
            return self._finish_suite()
        return self._end_if_all_left(now)

    def _settle(self, witness: Witness, now: float) -> list[Command]:
        self._session.witnesses.append(witness)
        wait = now + (_SETTLE_S if witness.clear else _SETTLE_LONG_S)
        if self._disruptions.falling(self._session.seats):
            wait = now + _FALLING_S
        self._until = min(self._until, wait) if self._stage is _Stage.SETTLING else wait
        self._stage = _Stage.SETTLING
        return self._end_if_all_left(now)

    def _end_if_all_left(self, now: float) -> list[Command]:
        """Ends at once when nobody is left to tell anything; else, when no blow falls any more, before long."""
        if self._stage is _Stage.SETTLING and all(seat.left for seat in self._session.seats.values()):
            return self._end(now, dump=False)
        if not self._disruptions.falling(self._session.seats):
            self._until = min(self._until, now + _SETTLE_LONG_S)
        return []

    def _end(self, now: float, *, dump: bool) -> list[Command]:
        self._stage = _Stage.ENDING
        self._until = now + _ENDING_S
        return [End(self._session.number, dump, self._session.deadline)]

    def _conclude(self, now: float) -> list[Command]:
        session = self._session
        if (again := self._disruptions.over(session.seats)) and session.deadline is None:
            return self._start(again.point, None, now, again.restart)
        witness = self._root_cause()
        if witness is None:
            return self._finish_suite()
        out_of_time = session.deadline is not None and session.deadline.what == "run"
        if not out_of_time and not all(seat.joined for seat in session.seats.values()):
            return self._abandon(ExitCode.INFRASTRUCTURE, f"the workers did not all join: {witness.cause}")
        if not self._tally.points:
            return self._abandon(ExitCode.INFRASTRUCTURE, f"no benchmark was run: {witness.cause}")
        self._tally.failed(witness.point, witness.cause)
        if witness.point >= self._tally.points:
            return self._finish(ExitCode.WORKLOAD_FAILED, None, None)
        blame = Blame(witness.point, witness.cause, witness.worker)
        if out_of_time:
            return self._finish(ExitCode.WORKLOAD_FAILED, blame, witness.point)
        self._tally.ended(witness.point)
        following = self._tally.following(witness.point)
        if following >= self._tally.points:
            return self._finish(ExitCode.WORKLOAD_FAILED, blame, None)
        return self._start(following, blame, now)

    def _root_cause(self) -> Witness | None:
        session = self._session
        if session.deadline:
            return verdict.of_stall(session.seats, limits.words(session.deadline))
        if not session.witnesses:
            return None
        witness = verdict.root(session.witnesses)
        return witness if witness.clear else verdict.of_unwell(session.seats) or witness

    def _finish_suite(self) -> list[Command]:
        return self._finish(ExitCode.DONE, None, None)

    def _abandon(self, code: int, cause: str) -> list[Command]:
        """Ends everything at once. What the workers are in and what comes after is not run; or the first of that has
        failed, where `code` says that the workload has.
        """
        if self.finished:
            return []
        session = self._session
        blame = Blame(min(session.inside), cause) if session.inside else None
        first = min(session.unfinished, default=None if session.seats else 0)
        return self._finish(code, blame, first, cause)

    def _finish(
        self, code: int, blame: Blame | None, not_run_from: int | None, cause: str = ""
    ) -> list[Command]:
        self._stage = _Stage.FINISHED
        code, cause = int(self._tally.code(code)), self._tally.cause(cause)
        return [Finish(code, cause, blame, not_run_from, self._tally.points)]


_LISTENING = (_Stage.RUNNING, _Stage.SETTLING)
