"""One night's decisions over all series of a machine: which to run again, and which have changed. Pure.

    first runs ── suspects() ──> reruns ── decide() ──> REGRESSED, IMPROVED, neither; a shift common to all

`suspects` asks for a rerun where the first run stands out: of series that did not change, one in six a night.
`decide` calls a series changed only when, over a window of nights, its runs agree, the chance of that without
a change is at most `PER_SERIES`, and it holds over all series of the night at once (Benjamini and Hochberg's
false discovery rate `PER_NIGHT`).
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

PER_SERIES = 2.5e-4
"""The chance of a false alarm that one series is given in one night: once in eleven years."""

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


@dataclass(frozen=True)
class Outcome:
    """A night's findings by series, and the shift that they were freed of."""

    findings: Mapping[str, Finding]
    shift: Shift | None


@dataclass(frozen=True)
class _Look:
    series: Series
    baseline: Baseline


def suspects(series: Mapping[str, Series]) -> list[str]:
    """Returns the series to run again, from the first runs of a night."""
    looks = _looks(series)
    shift = _shift_of(looks)
    return [
        name
        for name, look in looks.items()
        if min(one.probability for one in _both(look, _size(shift)).values()) < SUSPECT
    ]


def decide(series: Mapping[str, Series]) -> Outcome:
    """Returns what the latest night of each series shows, its reruns included."""
    looks = _looks(series)
    shift = _shift_of(looks)
    found = {name: _both(look, _size(shift)) for name, look in looks.items()}
    findings = {name: Finding(Change.NONE, None, None) for name in series}
    changed = {side: _changed({name: both[side] for name, both in found.items()}) for side in _SIDES}
    for name, both in found.items():
        leaning = min(_SIDES, key=lambda side: both[side].probability)
        change = leaning if name in changed[leaning] else Change.NONE
        findings[name] = Finding(change, looks[name].baseline, both[leaning])
    return Outcome(findings, shift)


_SIDES = (Change.UP, Change.DOWN)


def _looks(series: Mapping[str, Series]) -> dict[str, _Look]:
    """Returns the series that can be judged, with baselines that have learned from each other."""
    known = {name: made for name, one in series.items() if (made := baseline_of(before(one)))}
    shared = moderated(list(known.values()))
    return {name: _Look(series[name], one) for name, one in zip(known, shared, strict=True)}


def _shift_of(looks: Mapping[str, _Look]) -> Shift | None:
    off = [look.series.nights[-1].settled.centre - look.baseline.centre for look in looks.values()]
    return common_shift(off, [math.sqrt(look.baseline.variance) for look in looks.values()])


def _size(shift: Shift | None) -> float:
    return shift.size if shift else 0.0


def _both(look: _Look, shift: float) -> dict[Change, Evidence]:
    return {side: evidence(look.series, look.baseline, side.value, shift) for side in _SIDES}


def _changed(of_side: Mapping[str, Evidence]) -> set[str]:
    """Returns the series whose change holds over all of them: the largest k of which the k-th is below k shares."""
    agreed = {name: one.probability for name, one in of_side.items() if one.agreed}
    ordered = sorted(agreed, key=lambda name: agreed[name])
    last = 0
    for k, name in enumerate(ordered, start=1):
        if agreed[name] <= PER_NIGHT * k / len(of_side):
            last = k
    return {name for name in ordered[:last] if agreed[name] <= PER_SERIES}
