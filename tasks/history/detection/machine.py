"""A whole machine from night to night: what its series are off by together, and the one alert for that. Pure.

    level ──(off together, two runs agree)──> alert open ──(two runs back)──> level
      │                                           └──(a person accepts it)──> that much is expected from then on
      └──(better together, `SETTLED_NIGHTS` in a row)──> that much is expected from then on

A slower disk, a hotter processor or another version of JAX makes everything slower at once. Judged one by one, that
would be as many alarms as there are series, and none of them would say what happened; so it is looked for first, and
is the machine's for as long as it lasts. Each series is freed of it, in this night and in all that come after, and
judged by what it differs beyond. Nothing is silenced by that: what all show alike is an alert as any other.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from tasks.history.detection.baseline import Baseline
from tasks.history.detection.common import FEWEST, STAYS, SURE, Shift, common_shift, middle
from tasks.history.detection.series import Night, Run, Series
from tasks.history.detection.standing import SETTLED_NIGHTS, Alert, Standing

CONFIRMING = 2 * FEWEST
"""Series whose second run says whether the machine is off still."""

_TYPICAL = 2.0
"""Standard deviations from what is common within which a series shows that and nothing of its own."""

_CONFIRMED = 2.0
"""Standard errors at which second runs alone show what the first ones did."""


_NOTHING = 1e-6
"""What is less than that, of logarithms, is rounding."""


class Taken(NamedTuple):
    """What a night's series were freed of, of logarithms: their first runs, and those that were made again."""

    first: float = 0.0
    again: float = 0.0


@dataclass(frozen=True)
class Machine:
    """Where a machine stands as a night begins: its alert and levels, as a series has them.

    `expected`: what its series are expected to be off their own levels by, of logarithms, since somebody accepted it
    or it had been better for long; `last`: what they were off beyond that when they were last run.
    """

    standing: Standing = field(default_factory=Standing)
    expected: float = 0.0
    last: float = 0.0


@dataclass(frozen=True)
class Together:
    """What a machine's series show together in a night, beyond what is expected of it, of logarithms.

    `shift`: of the first runs, None where nothing is common; `again`: of second runs, None where too few were made.
    `confirmed`: two runs agree on it. `known`: there are enough series to tell.
    """

    taken: Taken = field(default_factory=Taken)
    shift: Shift | None = None
    again: float | None = None
    confirmed: bool = False
    known: bool = False

    @property
    def size(self) -> float:
        """Returns what it is off by, both runs taken together; 0 where nothing is common."""
        if self.shift is None:
            return 0.0
        return self.shift.size if self.again is None else (self.shift.size + self.again) / 2

    @property
    def runs(self) -> list[float]:
        """Returns what the machine was off by in each run."""
        first = self.shift.size if self.shift else 0.0
        return [first] if self.again is None else [first, self.again]


def freed(nights: Sequence[Night], taken: Mapping[str, Taken]) -> tuple[Night, ...]:
    """Returns nights without what they were off by with all others of their machine. `taken`: by night's name."""
    if not taken:
        return tuple(nights)
    return tuple(without(night, taken[night.name]) if night.name in taken else night for night in nights)


def without(night: Night, taken: Taken) -> Night:
    """Returns a night whose runs are freed of what all were off by."""
    runs = (Run(run.centre - taken[min(n, 1)], run.spread) for n, run in enumerate(night.runs))
    return Night(night.name, tuple(runs)) if any(taken) else night


def together(machine: Machine, series: Sequence[Series], baselines: Sequence[Baseline]) -> Together:
    """Returns what series, each with its baseline, are off by together in their latest night."""
    if len(series) < FEWEST:
        return _of_few(machine, series, baselines)
    places = [_place(one, baseline) for one, baseline in zip(series, baselines, strict=True)]
    tonight = [one.nights[-1].runs for one in series]
    off = [
        runs[0].centre - place.centre - machine.expected for runs, place in zip(tonight, places, strict=True)
    ]
    scales = [place.scale for place in places]
    shift = common_shift(off, scales, STAYS if abs(machine.last) > _NOTHING else SURE)
    if shift is None:
        enough = sum(len(runs) > 1 for runs in tonight) >= FEWEST
        return Together(Taken(machine.expected, machine.expected), again=0.0 if enough else None, known=True)
    typical = [
        (runs[-1].centre - place.centre - machine.expected, place.scale)
        for runs, place, one in zip(tonight, places, off, strict=True)
        if len(runs) > 1 and abs(one - shift.size) <= _TYPICAL * place.scale
    ]
    # Who stands out beyond the machine is made again by choice, and may differ by itself: the others tell.
    again = middle(*zip(*typical, strict=True)) if len(typical) >= FEWEST else None
    taken = Taken(machine.expected + shift.size, machine.expected + (again or shift).size)
    return Together(
        taken, shift, again.size if again else None, _confirmed(machine, shift, again), known=True
    )


def confirming(off: Mapping[str, float]) -> list[str]:
    """Returns the series to run again to see whether their machine is off still: those that show that and no more.

    `off`: what each series is off beyond the machine, in standard deviations.
    """
    return sorted(off, key=lambda name: (abs(off[name]), name))[:CONFIRMING]


def after_night(machine: Machine, night: str, shown: Together, least: float) -> Machine:
    """Returns where a machine stands after a night. `least`: the smallest change that counts, of logarithms."""
    standing, last = machine.standing, shown.taken.again - machine.expected
    if not shown.known:
        return replace(machine, last=last)
    if standing.alert:
        half = standing.alert.effect / 2
        if all(off < half for off in [machine.last, *shown.runs][-2:]):
            standing = replace(standing, alert=None)
    elif shown.confirmed and shown.size >= least:
        standing = Standing(standing.level, Alert(night, shown.size))
    elif shown.confirmed and shown.size <= -least:
        better = (*standing.better, night)
        if len(better) == SETTLED_NIGHTS:
            return Machine(Standing(better[0]), shown.taken.again)
        standing = replace(standing, better=better)
    else:
        standing = replace(standing, better=())
    return replace(machine, standing=standing, last=last)


def accepted(night: str, shown: Together) -> Machine:
    """Returns where a machine stands after a night of which somebody said that it is what is expected from then on."""
    return Machine(Standing(night), shown.taken.again)


class _Place(NamedTuple):
    """Where a series was before the night, and what a run scatters by around that."""

    centre: float
    scale: float


def _place(series: Series, baseline: Baseline) -> _Place:
    """Returns where a series was of late: one with an alert of its own, or that got better, is not at its level."""
    since = (
        [] if series.level is None else [night.settled.centre for night in series.nights[series.level : -1]]
    )
    scale = math.sqrt(baseline.variance)
    if not since:
        return _Place(baseline.centre, scale * math.sqrt(1 + 1 / baseline.nights))
    return _Place(statistics.median(since), scale * math.sqrt(1 + 1 / len(since)))


def _confirmed(machine: Machine, shift: Shift, again: Shift | None) -> bool:
    """Says whether a second run, or the last one before this night, shows at least half of what the first ones do."""
    side, half = math.copysign(1, shift.size), abs(shift.size) / 2
    if again is not None:
        return side * again.size >= max(half, _CONFIRMED * again.error)
    return side * machine.last >= half


def _of_few(machine: Machine, series: Sequence[Series], baselines: Sequence[Baseline]) -> Together:
    """Returns what so few series are freed of that they cannot tell themselves: what is expected, or what the open
    alert says, whichever most of them are nearer to."""
    expected, alert = machine.expected, machine.standing.alert
    if alert and series:
        off = [
            one.nights[-1].runs[0].centre - _place(one, baseline).centre - expected
            for one, baseline in zip(series, baselines, strict=True)
        ]
        if statistics.median(off) > alert.effect / 2:
            expected += alert.effect
    return Together(Taken(expected, expected))
