"""Which worker is to be struck when, because the suite asks for it, and where the next session goes on. No I/O."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass

from runtime.contract.disruption import Disruption, Restart
from runtime.contract.progress import PointPhase, Step
from runtime.supervision.session import Seat
from runtime.supervision.verdict import name_workers


@dataclass(frozen=True)
class Blow:
    """A disruption that was ordered: in this repeat of this point these workers get this signal."""

    point: int
    repeat: int
    workers: tuple[int, ...]
    signal: str

    @property
    def words(self) -> str:
        """What happens in the point, for people."""
        return f"disrupted in repeat {self.repeat + 1}: {self.signal} to {name_workers(self.workers)}"


@dataclass(frozen=True)
class Again:
    """Where a session goes on after a disruption, and what its workers are told."""

    point: int
    restart: Restart


class Disruptions:
    """How far the workers are in the point that is running, and whether its disruption is due. Each repeat has one.

    Times are seconds of supervisor 0's monotonic clock.
    """

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._point: int | None = None
        self._asked: Disruption | None = None
        self._struck: set[tuple[int, int]] = set()
        self._repeat = 0
        self._begun: dict[int, int] = {}
        self._saved: dict[int, int] = {}
        self._trained: dict[int, int] = {}
        self._since: dict[int, float] = {}
        self._blow: Blow | None = None
        self._goes_on: int | None = None
        self._began_at = 0.0

    def point_began(self, body: PointPhase, now: float) -> float:
        """A worker begins a point, or goes on with it after a disruption. Returns when the point really began."""
        if self._point is None or body.point > self._point:  # another worker may be a point behind
            self._point, self._asked = body.point, Disruption.of(body.disruption)
            self._forget(0)
        return self._began_at if body.point == self._goes_on else now

    def stepped(self, worker: int, step: Step, now: float) -> None:
        """A worker tells how far it is."""
        if step.point != self._point or step.repeat < self._repeat:
            return
        if step.repeat > self._repeat:
            self._forget(step.repeat)
        if step.state == "begun":
            self._since.setdefault(worker, now)
            self._begun[worker] = max(step.step, self._begun.get(worker, -1))
        elif step.state == "trained":
            self._since.setdefault(worker, now)
            self._trained[worker] = step.step
        elif step.state == "saved":
            self._saved[worker] = max(step.step, self._saved.get(worker, -1))

    def due(self, now: float) -> Blow | None:
        """Returns the blow that falls now, once."""
        if self._asked is None or self._point is None or (self._point, self._repeat) in self._struck:
            return None
        if not self._is_due(self._asked, now):
            return None
        self._struck.add((self._point, self._repeat))
        workers = tuple(each for each in range(self._workers) if self._asked.strikes(each))
        self._blow = Blow(self._point, self._repeat, workers, self._asked.signal)
        return self._blow

    def falling(self, seats: Mapping[int, Seat]) -> bool:
        """Says whether a blow was ordered and not all that it strikes are gone yet."""
        return self._blow is not None and not all(seats[worker].left for worker in self._blow.workers)

    def over(self, seats: Mapping[int, Seat]) -> Again | None:
        """The session is over. Returns at which point and how to go on if it ended by the blow and nothing else."""
        blow, self._blow = self._blow, None
        if blow is None or not all(_fell(seats[worker], blow) for worker in blow.workers):
            return None
        self._goes_on = blow.point
        self._began_at = min(seat.point_began for seat in seats.values())
        everybody = len(self._saved) == self._workers
        saved = min(self._saved.values()) if everybody else None
        begun = max((*self._begun.values(), *self._trained.values()), default=-1)
        return Again(blow.point, Restart(blow.repeat, saved, begun))

    def _is_due(self, asked: Disruption, now: float) -> bool:
        if asked.at_step is None:
            assert asked.after_s is not None
            return len(self._since) == self._workers and now - max(self._since.values()) >= asked.after_s
        reached = self._saved if asked.moment == "saved" else self._begun
        return len(reached) == self._workers and min(reached.values()) >= asked.at_step

    def _forget(self, repeat: int) -> None:
        self._repeat = repeat
        for told in (self._begun, self._saved, self._trained, self._since):
            told.clear()


def _fell(seat: Seat, blow: Blow) -> bool:
    """Whether a worker that was struck is gone because of that. One that may end by itself does as it pleases."""
    if seat.left is None:
        return seat.ended is not None and seat.ended.struck
    return blow.signal == "SIGTERM" or seat.left.code == -signal.Signals[blow.signal]
