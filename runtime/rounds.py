"""In which order repeats are done: point after point, or those of a sweep in turns; and where each point is."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from runtime import distributed
from runtime.benchmarks.benchmark import Benchmark
from runtime.contract.disruption import Restart
from runtime.contract.results import PointResult
from runtime.contract.suite import Point
from runtime.fitting import Fitted
from runtime.repeats import Judge
from runtime.results_io import Journal
from runtime.settings import Settings

_OVER = 1 << 30
"""Stands for all repeats there may be of a point that has its result."""

_LEAST_S = 1.0
"""What is left, at least, of a point's deadline: it is passed by what goes on, not by what is over."""


@dataclass
class Opened:
    """A point on its way: the repeats that are left, in order, and how many are done, warm-up included.

    `spent_s` is what went into it so far, without what other points took in between.
    """

    fitted: Fitted
    repeats: list[int]
    done: int = 0
    restart: Restart | None = None
    benchmark: Benchmark | None = None
    spent_s: float = 0.0
    judge: Judge = field(init=False)
    _since: float | None = field(default=None, repr=False)

    @property
    def point(self) -> Point:
        """The point, with as much of its deadline as is left."""
        point = self.fitted.point
        if point.deadline_s is None or not self.spent_s:
            return point
        return dataclasses.replace(point, deadline_s=max(_LEAST_S, point.deadline_s - self.spent_s))

    def clock(self) -> float:
        """Returns the seconds that went into this point."""
        return self.spent_s + (0.0 if self._since is None else time.monotonic() - self._since)

    def goes_on(self) -> None:
        """It is this point's turn."""
        self._since = time.monotonic()

    def pauses(self) -> None:
        """Its turn is over."""
        self.spent_s, self._since = self.clock(), None

    def did(self, repeat: int) -> None:
        """A repeat is done."""
        self.repeats.remove(repeat)
        self.done, self.restart = self.done + 1, None


def restart_of(settings: Settings, point: Point) -> Restart | None:
    """Returns how to go on in the middle of a point; None: it begins."""
    restart = settings.restart
    where = settings.first_point if restart is None or restart.point is None else restart.point
    return restart if point.index == where else None


def repeats_left(of: int, restart: Restart | None) -> list[int]:
    """Returns the repeats to do, in order. The one that goes on comes first; after an attempt that was taken away
    all others come as well, since nothing that it measured counts.
    """
    repeats = list(range(of))
    if restart is None:
        return repeats
    if restart.point is None:
        return repeats[restart.repeat :]
    return [restart.repeat, *(one for one in repeats if one != restart.repeat)]


def groups(points: Sequence[Fitted], interleave: bool) -> list[list[Fitted]]:
    """Returns points that take turns: with `interleave` those of one class that follow each other, else each alone.

    A point that is disrupted stays alone: its workers start again in the middle of it.
    """
    if not interleave:
        return [[each] for each in points]
    found: list[list[Fitted]] = []
    alike = itertools.groupby(
        points, lambda each: (each.point.generator, each.point.implementation, each.point.disruption is None)
    )
    for (_, _, takes_turns), members in alike:
        found += [list(members)] if takes_turns else [[each] for each in members]
    return found


def done_before(journal: Path, attempt: int, point: int, worker: int) -> int | None:
    """Returns how many repeats of a point all workers did in an earlier process of this attempt; None: it has its
    result everywhere. To be called by all workers."""
    mine = 0
    for record in Journal.read(journal):
        if isinstance(record, PointResult) and (record.attempt, record.worker, record.point) == (
            attempt,
            worker,
            point,
        ):
            mine = record.repeats_done if record.paused else _OVER
    least = -distributed.largest(-mine)
    return None if least == _OVER else least
