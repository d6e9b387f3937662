"""Finds the first of many builds that is slow, by few runs. Pure: from all runs so far it tells what to run next.

The builds stand in a row, from one that was known to be good to one that was known to be bad. Both ends are measured
first, in turns, here and now: what shows no difference today is no matter of the builds. Then the row is halved, each
build in the middle judged by which end it is nearer to, and run again until that is sure. The two builds between which
it changed are run twice at least before anything is said.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

ENDS = 2
"""Runs of each end before they are compared, and of each build that the answer rests on."""
MOST = 5
"""Runs of one build; what is not sure by then never will be."""
SURE = 2.33
"""Standard deviations from the middle between the ends from which on a build is on one side: wrong in one of 100."""
APART = 3.0
"""Standard deviations that the ends must lie apart."""

Runs = Mapping[int, Sequence[float]]
"""Of each build, by its place in the row, the logarithm of each run's median."""


@dataclass(frozen=True)
class Measure:
    """Run this build once more."""

    build: int
    why: str


@dataclass(frozen=True)
class Found:
    """It is `first_bad`, or, where builds between could not be run, one of those after `last_good` up to it.

    `effect`: how much larger the values of the bad end are than those of the good one, of logarithms.
    """

    last_good: int
    first_bad: int
    effect: float
    unsure: Sequence[int] = ()


@dataclass(frozen=True)
class NotReproduced:
    """The ends do not differ here and now; `effect` is what they differ by, `reach` what would have been seen."""

    effect: float
    reach: float


@dataclass(frozen=True)
class CannotRun:
    """An end of the row fails, so nothing can be compared with it."""

    build: int


Next = Measure | Found | NotReproduced | CannotRun


def next_step(builds: int, runs: Runs, failed: frozenset[int], scatter: float) -> Next:
    """Returns what to run next, or the answer. `builds`: how many there are, two at least.

    `scatter`: the standard deviation of one run of an unchanged build, of logarithms.
    """
    last = builds - 1
    for end in (0, last):
        if end in failed:
            return CannotRun(end)
    row = _Row(runs, scatter, last)
    if (ends := _ends(row)) is not None:
        return ends
    low, high = 0, last
    while True:
        between = [build for build in range(low + 1, high) if build not in failed]
        if not between:
            break
        middle = min(between, key=lambda build: abs(2 * build - low - high))
        side = row.side(middle)
        if side is None:
            return Measure(
                middle, f"halfway between {low} and {high}" if not row.count(middle) else "not sure yet"
            )
        low, high = (middle, high) if side == "good" else (low, middle)
    for build in (low, high):
        if row.count(build) < ENDS:
            return Measure(build, "the answer rests on it")
    unsure = [build for build in (low, high) if not row.is_sure(build)]
    return Found(low, high, row.effect, unsure)


def _ends(row: _Row) -> Next | None:
    """Returns what the ends still need, or that they do not differ; None where they do."""
    counts = row.count(0), row.count(row.last)
    if min(counts) < ENDS:
        return Measure(0 if counts[0] <= counts[1] else row.last, "the ends come first, in turns")
    reach = APART * row.scatter * math.sqrt(1 / counts[0] + 1 / counts[1])
    if abs(row.effect) >= reach:
        return None
    if min(counts) < MOST:
        return Measure(0 if counts[0] <= counts[1] else row.last, "the ends do not differ for sure yet")
    return NotReproduced(row.effect, reach)


@dataclass(frozen=True)
class _Row:
    runs: Runs
    scatter: float
    last: int

    def count(self, build: int) -> int:
        return len(self.runs.get(build, ()))

    def mean(self, build: int) -> float:
        return sum(self.runs[build]) / len(self.runs[build])

    @property
    def effect(self) -> float:
        return self.mean(self.last) - self.mean(0)

    def side(self, build: int) -> str | None:
        """Returns which end a build belongs to; None where another run is needed to say so."""
        if not self.count(build) or (not self.is_sure(build) and self.count(build) < MOST):
            return None
        return "bad" if self._off(build) > 0 else "good"

    def is_sure(self, build: int) -> bool:
        """Says whether a build is clearly on one side."""
        if build in (0, self.last):
            return True
        error = self.scatter * math.sqrt(
            1 / self.count(build) + 0.25 / self.count(0) + 0.25 / self.count(self.last)
        )
        return abs(self._off(build)) >= SURE * error

    def _off(self, build: int) -> float:
        """Returns how far a build is beyond the middle of the ends, towards the bad one."""
        middle = (self.mean(0) + self.mean(self.last)) / 2
        return math.copysign(1.0, self.effect) * (self.mean(build) - middle)
