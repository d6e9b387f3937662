"""A series from night to night as a drawing: its runs, the level it is held to, alerts, and what does not count. Pure.

Nights stand at equal distances, one column each, also those that gave no value. The axis of values begins where the
values do, not at zero: a change of a few percent is what there is to see. Single spikes do not stretch it; they are
drawn at its edge.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tasks.history.intervals import Interval
from tasks.history.quantities import quantity
from tasks.history.report.axis import Axis, axis_between
from tasks.history.report.chart import LETTER, WIDTH

HEIGHT = 280.0
_LEFT, _RIGHT = 66.0, WIDTH - 14.0
_LINES = 3
"""Of words above the drawing."""
_TOP, _BOTTOM = 14.0 + 15 * _LINES, HEIGHT - 40.0
_DATES = 7
"""Dates below the drawing, at most."""
_LEAST_REACH = 0.02
"""The axis shows at least this much to both sides of the middle: chance alone shall not fill it."""
_FENCE = 4.0
"""Quartile ranges beyond the quartiles at which a value is a spike, and drawn at the edge."""


@dataclass(frozen=True)
class Run:
    """A run's median in a night, in the series' unit. `aside`: why it does not count; empty where it does.

    `settled`: it speaks for its night; of a night that was run again, the first does not.
    """

    night: str
    value: float
    interval: Interval | None
    run_id: str
    versions: Mapping[str, str] = field(default_factory=dict)
    aside: str = ""
    settled: bool = True


@dataclass(frozen=True)
class Judged:
    """What was decided in a night. `level`: what the series is held to. `told`: what happened, in a word."""

    night: str
    level: float | None = None
    told: str = ""
    words: str = ""
    in_alert: bool = False


@dataclass(frozen=True)
class Trend:
    """All that is drawn of a series. `nights`: their names, the latest last. `holes`: why a night gave no value.

    `notes`: what people said of a night.
    """

    label: str
    unit: str
    kind: str
    nights: Sequence[str]
    runs: Sequence[Run]
    judged: Sequence[Judged] = ()
    holes: Mapping[str, str] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Spot:
    """A run at its place. `look`: counts, faint (was run again) or aside; `edge`: up or down where it is beyond."""

    x: float
    y: float
    title: str
    look: str
    edge: str = ""
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Mark:
    """Something at a night's place: a hole, a note, other versions, or a change; `kind` is its colour, its word stands
    at height `y`."""

    x: float
    title: str
    kind: str = ""
    text: str = ""
    anchor: str = "middle"
    y: float = 0.0


@dataclass(frozen=True)
class Stretch:
    """From `x1` to `x2`; of a level at height `y`."""

    x1: float
    x2: float
    y: float = 0.0
    title: str = ""


@dataclass(frozen=True)
class TrendChart:
    """The drawing, in pixels; `axis` maps values onto heights."""

    label: str
    kind: str
    axis: Axis
    dates: Sequence[Mark]
    spots: Sequence[Spot]
    levels: Sequence[Stretch]
    alerts: Sequence[Stretch]
    changes: Sequence[Mark]
    versions: Sequence[Mark]
    holes: Sequence[Mark]
    notes: Sequence[Mark]
    left: float = _LEFT
    right: float = _RIGHT
    top: float = _TOP
    bottom: float = _BOTTOM
    height: float = HEIGHT


def trend_chart(trend: Trend) -> TrendChart | None:
    """Returns the drawing of a series; None where nothing was ever measured."""
    told = [run.value for run in trend.runs if not run.aside] or [run.value for run in trend.runs]
    if not told:
        return None
    axis = _axis(told, [one.level for one in trend.judged if one.level is not None], trend.unit)
    place = _places(trend.nights)
    return TrendChart(
        label=f"{trend.label}: {len(trend.nights)} nights",
        kind=trend.kind,
        axis=axis,
        dates=_dates(trend.nights, place),
        spots=[_spot(run, trend, axis, place) for run in trend.runs],
        levels=_levels(trend, axis, place),
        alerts=_alerts(trend.judged, place),
        changes=_changes(trend.judged, place),
        versions=_versions(trend.runs, place),
        holes=[Mark(place[night], f"{night}: {why}") for night, why in trend.holes.items() if night in place],
        notes=[
            Mark(place[night], f"{night}: {text}") for night, text in trend.notes.items() if night in place
        ],
    )


def _axis(values: Sequence[float], levels: Sequence[float], unit: str) -> Axis:
    """Returns an axis that shows all values but spikes."""
    told = np.asarray(values)
    first, middle, third = np.percentile(told, (25, 50, 75))
    fence = _FENCE * max(third - first, _LEAST_REACH * abs(middle))
    inside = told[(told >= first - fence) & (told <= third + fence)]
    shown = np.concatenate([inside, np.asarray(levels)])
    low, high = float(shown.min()), float(shown.max())
    reach = max(high - low, 2 * _LEAST_REACH * abs(float(middle)), 1e-12)
    spare = (reach - (high - low)) / 2 + 0.08 * reach
    return axis_between(max(low - spare, 0.0) if low >= 0 else low - spare, high + spare, unit, _BOTTOM, _TOP)


def _places(nights: Sequence[str]) -> dict[str, float]:
    """Returns where each night's middle is."""
    column = (_RIGHT - _LEFT) / max(1, len(nights))
    return {night: round(_LEFT + (n + 0.5) * column, 1) for n, night in enumerate(nights)}


def _dates(nights: Sequence[str], place: Mapping[str, float]) -> list[Mark]:
    """Returns the names below the drawing: the latest night always, others where they have room."""
    longest = max((len(_date(night)) for night in nights), default=1) * LETTER
    most = max(1, min(_DATES, int((_RIGHT - _LEFT) / (longest + 14))))
    step = max(1, -(-len(nights) // most))
    found = []
    for night in nights[::-1][::step]:
        text = _date(night)
        beyond = place[night] + LETTER * len(text) / 2 > WIDTH
        found.append(Mark(place[night], night, text=text, anchor="end" if beyond else "middle"))
    return found[::-1]


def _date(night: str) -> str:
    return night.partition("T")[0]


def _spot(run: Run, trend: Trend, axis: Axis, place: Mapping[str, float]) -> Spot:
    interval = run.interval
    told = [f"{run.night}: {quantity(run.value, trend.unit)}", f"run {run.run_id}"]
    if interval is not None:
        ends = f"{quantity(interval.low, trend.unit)} to {quantity(interval.high, trend.unit)}"
        told.append(f"the median lies in {ends} ({100 * interval.confidence:.1f} %)")
    if run.aside:
        told.append(f"does not count: {run.aside}")
    elif not run.settled:
        told.append("it was run again")
    edge = "up" if run.value > axis.high else "down" if run.value < axis.low else ""
    return Spot(
        x=place[run.night],
        y=axis.x(run.value),
        title="; ".join(told),
        look="aside" if run.aside else "counts" if run.settled else "faint",
        edge=edge,
        low=None if interval is None or edge else axis.x(interval.low),
        high=None if interval is None or edge else axis.x(interval.high),
    )


def _levels(trend: Trend, axis: Axis, place: Mapping[str, float]) -> list[Stretch]:
    """Returns the level as a line that steps; where nothing is known of it there is none."""
    half = (_RIGHT - _LEFT) / max(1, len(trend.nights)) / 2
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
    free = [0.0] * _LINES
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
                _TOP - 10 - 15 * (line or 0),
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
