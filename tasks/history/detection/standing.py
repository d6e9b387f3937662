"""Where a series stands from night to night: its level, an alert that is open, getting better. Pure.

    level ──(worse)──> alert open ──(two runs back at the level)──> level
      │                    └──(a person accepts it)──> a new level from the alert's first night on
      └──(better, `SETTLED_NIGHTS` in a row)──> a new level from the first of them on

One alert per series: while it is open, the level stays what it was before, so that nothing is told twice and a
recovery is seen for what it is. Once it is closed, its nights tell nothing of the level, and no window sees them.
Getting better for a night or two moves nothing: the level would be one that the series may never reach again.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tasks.history.detection.baseline import Baseline
from tasks.history.detection.evidence import evidence
from tasks.history.detection.finding import Change, Finding
from tasks.history.detection.series import Night, Series

SETTLED_NIGHTS = 5
"""Nights in a row that values must be better before that is what is expected of them."""

_STILL_OFF = 0.01
"""At this chance or less of being that far off the level without a change, a series has not recovered."""


@dataclass(frozen=True)
class Alert:
    """`began`: the first night. `effect`: of logarithms, as it was found then, positive where values grew."""

    began: str
    effect: float


@dataclass(frozen=True)
class Standing:
    """`level`: the first night of the level that the series is held to, None from its first. `better`: the nights
    in a row, latest last, in which it was better than that. `apart`: alerts that are closed, each by the night that
    it began in and the first one that was back."""

    level: str | None = None
    alert: Alert | None = None
    better: tuple[str, ...] = ()
    apart: tuple[tuple[str, str], ...] = ()


def series_of(nights: Sequence[Night], standing: Standing, least: float = 0.0) -> Series:
    """Returns what a night is to be judged by: the nights of the level, and those since something changed."""
    here = tuple(itertools.dropwhile(lambda night: standing.level not in (None, night.name), nights))
    earlier = tuple(nights[: len(nights) - len(here)])
    if standing.apart:
        here = tuple(_without_alerts(here, standing.apart))
    since = standing.alert.began if standing.alert else standing.better[0] if standing.better else None
    names = [night.name for night in here]
    return Series(here, names.index(since) if since in names else None, least, earlier)


def after(standing: Standing, series: Series, finding: Finding, worse: Change) -> Standing:
    """Returns where a series stands after a night. `worse`: the side to which it gets worse."""
    tonight = series.nights[-1].name
    if standing.alert:
        if not recovered(series, finding, standing.alert):
            return standing
        back = series.nights[-1 if len(series.nights[-1].runs) > 1 else -2].name
        return replace(standing, alert=None, apart=(*standing.apart, (standing.alert.began, back)))
    if finding.change is worse and finding.evidence:
        return replace(standing, alert=Alert(_began(series, finding), finding.evidence.effect), better=())
    if finding.change is Change.NONE:
        return replace(standing, better=())
    better = (*standing.better, tonight)
    if len(better) >= SETTLED_NIGHTS and _lasts(series, finding, len(better)):
        return Standing(level=better[0])
    return replace(standing, better=better)


def _began(series: Series, finding: Finding) -> str:
    """Returns the first of the nights by which a change was found that are nearer to it than to the level."""
    assert finding.evidence and finding.baseline
    effect, began = finding.evidence.effect, series.nights[-1].name
    for night in reversed(series.nights[-finding.evidence.window : -1]):
        if (night.settled.centre - finding.baseline.centre) / effect < 1 / 2:
            break
        began = night.name
    return began


def _lasts(series: Series, finding: Finding, better: int) -> bool:
    """Says whether the last two runs are nearer to what values have become than to the level that they left.

    Long windows see a few good nights for a while after they are over.
    """
    if finding.baseline is None:
        return False
    level = finding.baseline.centre
    gained = statistics.median(night.settled.centre - level for night in series.nights[-better:])
    runs = [run for night in series.nights[-2:] for run in night.runs][-2:]
    return all((run.centre - level) / gained > 1 / 2 for run in runs)


def _without_alerts(nights: Sequence[Night], apart: Sequence[tuple[str, str]]) -> Iterator[Night]:
    """Yields the nights but for those of alerts that are closed."""
    began, back = {one for one, _ in apart}, {one for _, one in apart}
    inside = False
    for night in nights:
        inside = (inside and night.name not in back) or night.name in began
        if not inside:
            yield night


def accepted(standing: Standing) -> Standing:
    """Returns where a series stands once a person has said that its alert is what is expected from now on."""
    return Standing(level=standing.alert.began) if standing.alert else standing


def recovered(series: Series, finding: Finding, alert: Alert) -> bool:
    """Says whether the last two runs are back at the level: nearer to it than to the alert's, and not off it."""
    baseline = finding.baseline
    runs = [run for night in series.nights[-2:] for run in night.runs][-2:]
    if baseline is None or len(runs) < 2:
        return False
    side = 1 if alert.effect > 0 else -1
    nearer = all(side * (run.centre - baseline.centre) < side * alert.effect / 2 for run in runs)
    return nearer and not _off(series, baseline, side)


def _off(series: Series, baseline: Baseline, side: int) -> bool:
    """Says whether the runs that are nearer to the level are off it still, taken together."""
    nights = 1 if len(series.nights[-1].runs) > 1 else 2
    last = Series(series.nights[-nights:], level=0, earlier=series.earlier)
    return evidence(last, baseline, side).probability < _STILL_OFF
