"""One night's decisions over all series of all machines: which to run again, and which have changed. Pure.

    first runs ── suspects() ──> reruns ── decide() ──> REGRESSED, IMPROVED, neither; what a whole machine was off by

`suspects` asks for a rerun where the first run stands out: of series that did not change, one in six a night.
`decide` calls a series changed only when, over a window of nights, its runs agree, the chance of that without
a change is at most `PER_SERIES`, it holds over all series of the night at once (Benjamini and Hochberg's
false discovery rate `PER_NIGHT`), and it is as large as the series asks for.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass

from tasks.history.detection.baseline import Baseline, baseline_of
from tasks.history.detection.common import Shift, common_shift
from tasks.history.detection.evidence import Evidence, before, evidence
from tasks.history.detection.moderation import moderated
from tasks.history.detection.series import Series

SUSPECT = 0.1
"""The chance, in one direction, at which a first run is made again."""

PER_SERIES = 5e-5
"""The chance of a false alarm that one series is given in one night: of a hundred series one in half a year, were the
scatter of each known. Where it is learned from ten nights it is some three times that."""

PER_NIGHT = 0.05
"""The share of a night's alarms that may be false."""


class Change(enum.Enum):
    """To which side a series has moved: values, not whether that is good."""

    UP = 1
    NONE = 0
    DOWN = -1


@dataclass(frozen=True)
class Finding:
    """What was found of one series. `evidence` of the side that it leans to; None: there is no baseline yet."""

    change: Change
    baseline: Baseline | None
    evidence: Evidence | None


Machines = Mapping[str, Mapping[str, Series]]
"""The series of a night by machine and name; names differ over all machines."""


@dataclass(frozen=True)
class Outcome:
    """A night's findings by series, and by machine the shift that its series were freed of, where there was one."""

    findings: Mapping[str, Finding]
    shifts: Mapping[str, Shift]


@dataclass(frozen=True)
class _Freed:
    """Of one machine: the baselines of the series that have one, the evidence of both sides, what it was off by."""

    baselines: Mapping[str, Baseline]
    both: Mapping[str, Mapping[Change, Evidence]]
    shift: Shift | None


def suspects(machines: Machines) -> list[str]:
    """Returns the series to run again, from the first runs of a night."""
    return [
        name
        for series in machines.values()
        for name, both in _freed(series).both.items()
        if min(one.probability for one in both.values()) < SUSPECT
    ]


def decide(machines: Machines) -> Outcome:
    """Returns what the latest night of each series shows, its reruns included."""
    freed = {machine: _freed(series) for machine, series in machines.items()}
    both = {name: sides for one in freed.values() for name, sides in one.both.items()}
    changed = {side: _changed({name: sides[side] for name, sides in both.items()}) for side in _SIDES}
    findings = {}
    for machine, series in machines.items():
        for name, one in series.items():
            findings[name] = Finding(Change.NONE, None, None)
            if sides := both.get(name):
                leaning, shown = min(sides.items(), key=lambda side: side[1].probability)
                holds = name in changed[leaning] and abs(shown.effect) >= one.least
                findings[name] = Finding(
                    leaning if holds else Change.NONE, freed[machine].baselines[name], shown
                )
    return Outcome(findings, {machine: one.shift for machine, one in freed.items() if one.shift})


_SIDES = (Change.UP, Change.DOWN)


def _freed(series: Mapping[str, Series]) -> _Freed:
    """Judges the series of one machine by baselines that have learned from each other, what all show taken off."""
    known = {name: made for name, one in series.items() if (made := baseline_of(before(one)))}
    baselines = dict(zip(known, moderated(list(known.values())), strict=True))
    shift = common_shift(
        [series[name].nights[-1].settled.centre - one.centre for name, one in baselines.items()],
        [math.sqrt(one.variance) for one in baselines.values()],
    )
    size = shift.size if shift else 0.0
    both = {
        name: {side: evidence(series[name], one, side.value, size) for side in _SIDES}
        for name, one in baselines.items()
    }
    return _Freed(baselines, both, shift)


def _changed(of_side: Mapping[str, Evidence]) -> set[str]:
    """Returns the series whose change holds over all of them: the largest k of which the k-th is below k shares."""
    agreed = {name: one.probability for name, one in of_side.items() if one.agreed}
    ordered = sorted(agreed, key=lambda name: agreed[name])
    last = 0
    for k, name in enumerate(ordered, start=1):
        if agreed[name] <= PER_NIGHT * k / len(of_side):
            last = k
    return {name for name in ordered[:last] if agreed[name] <= PER_SERIES}
