"""The runs of a series at their places, and the axis on which they are read. Pure.

The axis begins where the values do, not at zero: a change of a few percent is what there is to see. Spikes of earlier
nights do not stretch it; they stand at its edge, each with its value. What the latest night shows does, for that is
what one looks for, unless it is off by a multiple.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tasks.history.quantities import quantity
from tasks.history.report.axis import Axis, axis_between
from tasks.history.report.chart import LETTER
from tasks.history.report.trend_model import BOTTOM, LEFT, RIGHT, TOP, Mark, Run, Spot, Trend

_LEAST_REACH = 0.02
"""The axis shows at least this much to both sides of the middle: chance alone shall not fill it."""
_FENCE = 4.0
"""Quartile ranges beyond the quartiles at which a value is a spike, and drawn at the edge."""
_FAR = 3.0
"""Of the middle, a multiple or a fraction: from there on the latest night is drawn at the edge, too."""
_MOST_ENDS = (10, 90)
"""Percent of the intervals whose ends are shown: a single wide one does not stretch the axis."""
_APART = 9.0
"""Between the runs of one night, where a column is wide enough."""
_LINES, _HIGH = 2, 13.0
"""Of values of runs at the edge, and how high one is."""
_MARK = 5.0
"""Half of what the mark of such a run takes."""


def axis_of(trend: Trend) -> Axis:
    """Returns the axis of a series that has runs."""
    runs = [run for run in trend.runs if not run.aside] or list(trend.runs)
    told = np.asarray([run.value for run in runs])
    first, middle, third = np.percentile(told, (25, 50, 75))
    fence = _FENCE * max(third - first, _LEAST_REACH * abs(middle))
    least, most = first - fence, third + fence
    night = max(run.night for run in runs)
    latest = [run.value for run in runs if run.night == night]
    near = [value for value in latest if middle / _FAR <= value <= middle * _FAR]
    levels = [one.level for one in trend.judged if one.level is not None]
    ends = [run.interval for run in runs if run.interval and least <= run.value <= most]
    if ends:
        low_end = float(np.percentile([one.low for one in ends], _MOST_ENDS[0]))
        high_end = float(np.percentile([one.high for one in ends], _MOST_ENDS[1]))
        near += [max(float(least), low_end), min(float(most), high_end)]
    shown = np.concatenate([told[(told >= least) & (told <= most)], near, levels])
    low, high = float(shown.min()), float(shown.max())
    reach = max(high - low, 2 * _LEAST_REACH * abs(float(middle)), 1e-12)
    spare = (reach - (high - low)) / 2 + 0.08 * reach
    return axis_between(
        max(low - spare, 0.0) if low >= 0 else low - spare, high + spare, trend.unit, BOTTOM, TOP
    )


def spots_of(trend: Trend, axis: Axis, place: Mapping[str, float]) -> list[Spot]:
    """Returns the runs where they are drawn: those of one night beside each other, in their order."""
    apart = min(_APART, (RIGHT - LEFT) / max(1, len(trend.nights)) / 3)
    of_night, drawn = Counter(run.night for run in trend.runs), Counter[str]()
    found = []
    for run in trend.runs:
        nth = drawn[run.night] - (of_night[run.night] - 1) / 2
        drawn[run.night] += 1
        found.append(_spot(run, trend.unit, axis, round(place[run.night] + nth * apart, 1)))
    return _told(found, [quantity(run.value, trend.unit) for run in trend.runs])


def _spot(run: Run, unit: str, axis: Axis, x: float) -> Spot:
    interval = run.interval
    told = [f"{run.night}: {quantity(run.value, unit)}", f"run {run.run_id}"]
    if interval is not None:
        ends = f"{quantity(interval.low, unit)} to {quantity(interval.high, unit)}"
        told.append(f"the median lies in {ends} ({100 * interval.confidence:.1f} %)")
    if run.aside:
        told.append(f"does not count: {run.aside}")
    elif not run.settled:
        told.append("it was run again")
    edge = "up" if run.value > axis.high else "down" if run.value < axis.low else ""
    return Spot(
        x=x,
        y=axis.x(run.value),
        title="; ".join(told),
        look="aside" if run.aside else "counts" if run.settled else "faint",
        edge=edge,
        low=None if interval is None or edge else axis.x(interval.low),
        high=None if interval is None or edge else axis.x(interval.high),
    )


def _told(spots: list[Spot], values: list[str]) -> list[Spot]:
    """Returns the runs with the values of those at an edge beside them, where there is room: the latest first."""
    taken = {
        (edge, line): [(one.x - _MARK, one.x + _MARK) for one in spots if one.edge == edge and line == 0]
        for edge in ("up", "down")
        for line in range(_LINES)
    }
    found = []
    for spot, text in zip(reversed(spots), reversed(values), strict=True):
        found.append(spot)
        end = spot.x - _MARK - 2
        begin = end - LETTER * len(text)
        if begin < LEFT:
            begin, end = spot.x + _MARK + 2, spot.x + _MARK + 2 + LETTER * len(text)
        for line in range(_LINES if spot.edge else 0):
            if all(end <= left or right <= begin for left, right in taken[spot.edge, line]):
                taken[spot.edge, line].append((begin, end))
                y = spot.y + (5 + _HIGH * line if spot.edge == "up" else 4 - _HIGH * line)
                found[-1] = replace(spot, value=Mark((begin + end) / 2, spot.title, text=text, y=y))
                break
    return found[::-1]
