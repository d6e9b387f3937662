"""One night's decisions over all series of all machines: which to run again, and which have changed. Pure.

    first runs ── suspects() ──> reruns ── decide() ──> REGRESSED, IMPROVED, neither; what a whole machine was off by

`suspects` asks for a rerun where the first run stands out: of series that did not change, one in six a night; and
where a whole machine does, of some of its series.
`decide` calls a series changed only when, over a window of nights, its runs agree, the chance of that without
a change is at most `PER_SERIES`, it holds over all series of the night at once (Benjamini and Hochberg's
false discovery rate `PER_NIGHT`), and it is as large as the series asks for.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, replace

from tasks.history.detection.baseline import Baseline, baseline_of
from tasks.history.detection.evidence import Evidence, before, evidence
from tasks.history.detection.finding import Change, Finding
from tasks.history.detection.machine import Machine, Together, after_night, confirming, together, without
from tasks.history.detection.moderation import moderated
from tasks.history.detection.series import Series

SUSPECT = 0.1
"""The chance, in one direction, at which a first run is made again."""

PER_SERIES = 5e-5
"""The chance of a false alarm that one series is given in one night: of a hundred series one in half a year, were the
scatter of each known. Where it is learned from ten nights it is some three times that."""

PER_NIGHT = 0.05
"""The share of a night's alarms that may be false."""


AllSeries = Mapping[str, Mapping[str, Series]]
"""The series of a night by machine and name; names differ over all machines. The nights before the one in question are
freed of what the machine was off by (`machine.freed`)."""

Machines = Mapping[str, Machine]
"""Where machines stand as the night begins, by name; one that is not there stands at its level."""


@dataclass(frozen=True)
class Shown:
    """What one machine shows in a night. `series`: all of them, the latest night freed as well; `findings` by series.

    `least`: the smallest change of the machine that counts, of logarithms.
    """

    together: Together
    series: Mapping[str, Series]
    findings: Mapping[str, Finding]
    least: float

    def after(self, machine: Machine, night: str) -> Machine:
        """Returns where the machine stands after this night."""
        return after_night(machine, night, self.together, self.least)


@dataclass(frozen=True)
class _Freed:
    """Of one machine: its series without what it is off by; baselines and evidence of those that have a baseline."""

    together: Together
    series: Mapping[str, Series]
    baselines: Mapping[str, Baseline]
    both: Mapping[str, Mapping[Change, Evidence]]

    @property
    def least(self) -> float:
        return (
            statistics.median(self.series[name].least for name in self.baselines) if self.baselines else 0.0
        )

    @property
    def off(self) -> Mapping[str, float]:
        return {
            name: (self.series[name].nights[-1].runs[0].centre - one.centre) / math.sqrt(one.variance)
            for name, one in self.baselines.items()
        }


def suspects(series: AllSeries, machines: Machines | None = None) -> list[str]:
    """Returns the series to run again, from the first runs of a night."""
    found: dict[str, None] = {}
    for name, members in series.items():
        machine = (machines or {}).get(name, Machine())
        freed = _freed(members, machine)
        standing_out = (
            name
            for name, both in freed.both.items()
            if min(one.probability for one in both.values()) < SUSPECT
        )
        found |= dict.fromkeys(standing_out)
        if not machine.standing.alert and freed.together.shift and freed.together.size >= freed.least:
            found |= dict.fromkeys(confirming(freed.off))
    return list(found)


def decide(series: AllSeries, machines: Machines | None = None) -> Mapping[str, Shown]:
    """Returns what the latest night shows of each machine and series, reruns included."""
    freed = {name: _freed(members, (machines or {}).get(name, Machine())) for name, members in series.items()}
    both = {name: sides for one in freed.values() for name, sides in one.both.items()}
    changed = {side: _changed({name: sides[side] for name, sides in both.items()}) for side in _SIDES}
    return {
        name: Shown(
            one.together,
            one.series,
            {series: _finding(one, series, changed) for series in one.series},
            one.least,
        )
        for name, one in freed.items()
    }


_SIDES = (Change.UP, Change.DOWN)


def _finding(freed: _Freed, name: str, changed: Mapping[Change, set[str]]) -> Finding:
    if (sides := freed.both.get(name)) is None:
        return Finding(Change.NONE, None, None)
    leaning, shown = min(sides.items(), key=lambda side: side[1].probability)
    holds = name in changed[leaning] and abs(shown.effect) >= freed.series[name].least
    return Finding(leaning if holds else Change.NONE, freed.baselines[name], shown)


def _freed(series: Mapping[str, Series], machine: Machine) -> _Freed:
    """Judges the series of one machine by baselines that have learned from each other, what all show taken off."""
    known = {name: made for name, one in series.items() if (made := baseline_of(before(one), one.earlier))}
    baselines = dict(zip(known, moderated(list(known.values())), strict=True))
    shown = together(machine, [series[name] for name in baselines], list(baselines.values()))
    rest = {
        name: replace(one, nights=(*one.nights[:-1], without(one.nights[-1], shown.taken)))
        if any(shown.taken)
        else one
        for name, one in series.items()
    }
    both = {
        name: {side: evidence(rest[name], one, side.value) for side in _SIDES}
        for name, one in baselines.items()
    }
    return _Freed(shown, rest, baselines, both)


def _changed(of_side: Mapping[str, Evidence]) -> set[str]:
    """Returns the series whose change holds over all of them: the largest k of which the k-th is below k shares."""
    agreed = {name: one.probability for name, one in of_side.items() if one.agreed}
    ordered = sorted(agreed, key=lambda name: agreed[name])
    last = 0
    for k, name in enumerate(ordered, start=1):
        if agreed[name] <= PER_NIGHT * k / len(of_side):
            last = k
    return {name for name in ordered[:last] if agreed[name] <= PER_SERIES}
