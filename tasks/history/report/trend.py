"""A series from night to night as a drawing: its runs, the level it is held to, alerts, and what does not count. Pure.

Nights stand at equal distances, one column each, also those that gave no value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tasks.history.quantities import quantity
from tasks.history.report.axis import Axis
from tasks.history.report.chart import LETTER, WIDTH
from tasks.history.report.trend_model import (
    LEFT,
    LINES,
    RIGHT,
    TOP,
    Judged,
    Mark,
    Run,
    Stretch,
    Trend,
    TrendChart,
)
from tasks.history.report.trend_runs import axis_of, spots_of

_DATES = 7
"""Dates below the drawing, at most."""


def trend_chart(trend: Trend) -> TrendChart | None:
    """Returns the drawing of a series; None where nothing was ever measured."""
    if not trend.runs:
        return None
    axis = axis_of(trend)
    place = _places(trend.nights)
    return TrendChart(
        label=f"{trend.label}: {len(trend.nights)} nights",
        kind=trend.kind,
        axis=axis,
        dates=_dates(trend.nights, place),
        spots=spots_of(trend, axis, place),
        levels=_levels(trend, axis, place),
        alerts=_alerts(trend.judged, place),
        changes=_changes(trend.judged, place),
        versions=_versions(trend.runs, place),
        holes=[Mark(place[night], f"{night}: {why}") for night, why in trend.holes.items() if night in place],
        notes=[
            Mark(place[night], f"{night}: {text}") for night, text in trend.notes.items() if night in place
        ],
    )


def _places(nights: Sequence[str]) -> dict[str, float]:
    """Returns where each night's middle is."""
    column = (RIGHT - LEFT) / max(1, len(nights))
    return {night: round(LEFT + (n + 0.5) * column, 1) for n, night in enumerate(nights)}


def _dates(nights: Sequence[str], place: Mapping[str, float]) -> list[Mark]:
    """Returns the names below the drawing: the latest night always, others where they have room."""
    longest = max((len(_date(night)) for night in nights), default=1) * LETTER
    most = max(1, min(_DATES, int((RIGHT - LEFT) / (longest + 14))))
    step = max(1, -(-len(nights) // most))
    found = []
    for night in nights[::-1][::step]:
        text = _date(night)
        beyond = place[night] + LETTER * len(text) / 2 > WIDTH
        found.append(Mark(place[night], night, text=text, anchor="end" if beyond else "middle"))
    return found[::-1]


def _date(night: str) -> str:
    return night.partition("T")[0]


def _levels(trend: Trend, axis: Axis, place: Mapping[str, float]) -> list[Stretch]:
    """Returns the level as a line that steps; where nothing is known of it there is none."""
    half = (RIGHT - LEFT) / max(1, len(trend.nights)) / 2
    return [
        Stretch(
            place[one.night] - half,
            place[one.night] + half,
            axis.x(one.level),
            f"{one.night}: held to {quantity(one.level, trend.unit)}",
        )
        for one in trend.judged
        if one.level is not None and one.night in place
    ]


def _alerts(judged: Iterable[Judged], place: Mapping[str, float]) -> list[Stretch]:
    """Returns from where to where alerts were open."""
    found: list[Stretch] = []
    opened, last = None, 0.0
    for one in judged:
        if one.night not in place:
            continue
        if one.in_alert:
            opened, last = place[one.night] if opened is None else opened, place[one.night]
        elif opened is not None:
            found.append(Stretch(opened, place[one.night], title="an alert was open"))
            opened = None
    if opened is not None:
        found.append(Stretch(opened, max(last, opened + 2), title="an alert is open"))
    return found


def _changes(judged: Iterable[Judged], place: Mapping[str, float]) -> list[Mark]:
    """Returns what happened, the words in lines one above the other; a word is left out where no line has room."""
    found: list[Mark] = []
    free = [0.0] * LINES
    for one in judged:
        if not one.told or one.night not in place:
            continue
        x, room = place[one.night], LETTER * len(one.told)
        begin = min(x - room / 2, WIDTH - room)
        line = next((n for n, reached in enumerate(free) if begin >= reached), None)
        if line is not None:
            free[line] = begin + room + 6
        title = f"{one.night}: {one.told}" + (f", {one.words}" if one.words else "")
        found.append(
            Mark(
                x,
                title,
                one.told.replace(" ", "-"),
                "" if line is None else one.told,
                "end" if begin + room / 2 < x - 0.1 else "middle",
                TOP - 10 - 15 * (line or 0),
            )
        )
    return found


def _versions(runs: Iterable[Run], place: Mapping[str, float]) -> list[Mark]:
    """Returns where runs were of other versions than those before them, and of which."""
    found = []
    before: Mapping[str, str] = {}
    for run in runs:
        if run.aside or not run.versions:
            continue
        changed = [
            f"{name} {before.get(name, 'none')} → {version}"
            for name, version in run.versions.items()
            if before and before.get(name) != version
        ]
        if changed:
            found.append(Mark(place[run.night], f"{run.night}: {', '.join(changed)}"))
        before = run.versions
    return found
