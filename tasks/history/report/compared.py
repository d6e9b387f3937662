"""The page of two runs beside each other: what differs, and every repeat of both, series by series. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from runtime.contract.counting import counted
from runtime.contract.roles import role_of
from tasks.history import changes
from tasks.history.intervals import median, median_interval
from tasks.history.pair import Comparison, Pair
from tasks.history.quantities import plus_minus, quantity
from tasks.history.report.axis import Axis, axis_between
from tasks.history.report.chart import WIDTH, Chart, Dot, Layout, Row, sides
from tasks.history.report.lines import Line
from tasks.history.report.page import template
from tasks.history.report.series_page import style

MOST_DRAWN = 60
"""Series that are drawn; the table has all."""

_MOODS = {"slower": "bad", "more": "bad", "faster": "good", "less": "good"}
_TOLD = {
    "slower": "is slower",
    "more": "needs more memory",
    "faster": "is faster",
    "less": "needs less memory",
}
_MARGIN = 0.04


def render_compared(found: Comparison, unknown: str) -> str:
    """Returns the page: one HTML document that loads nothing. `unknown`: what is said where noise is not known."""
    first = sorted(found.pairs, key=lambda pair: pair.word not in _MOODS)  # what differs is drawn first
    return template("compare.html.j2").render(
        title=f"{found.here} beside {found.there}",
        mood=_mood(found),
        answer=answer(found),
        headings=("series", found.there, found.here, "change", "larger in", "runs differ by", "finding"),
        lines=[_line(pair) for pair in found.pairs],
        drawn=[_drawn(pair, found) for pair in first[:MOST_DRAWN]],
        not_drawn=max(0, len(found.pairs) - MOST_DRAWN),
        versions=[
            Line([(name, ""), (before, ""), (now, "")]) for name, (before, now) in found.versions.items()
        ],
        version_headings=("version", found.there, found.here),
        left_out=found.left_out,
        unknown=unknown if any(pair.usual is None for pair in found.pairs) else "",
        style=style(),
        width=WIDTH,
    )


def answer(found: Comparison) -> str:
    """Returns the one thing that a reader should know."""
    if not found.pairs:
        return "Nothing of them could be compared."
    counts = Counter(pair.word for pair in found.pairs)
    series = f"{len(found.pairs)} series"
    told = [f"{words} in {counts[word]}" for word, words in _TOLD.items() if counts[word]]
    if told:
        return f"Of {series}, {found.here} {', '.join(told)}."
    if counts["cannot tell"] == len(found.pairs):
        return f"Of {series} nothing can be told: there are too few repeats."
    return f"None of {series} differs beyond what repeats and runs differ by."


def _mood(found: Comparison) -> str:
    moods = {_MOODS.get(pair.word, "calm") for pair in found.pairs}
    return next((mood for mood in ("bad", "good") if mood in moods), "calm")


def _title(pair: Pair) -> str:
    memory = "" if pair.unit == "s" else " device memory" if pair.metric.startswith("device") else " memory"
    return f"{pair.label}: {pair.operation}{memory}"


def _line(pair: Pair) -> Line:
    effect = pair.effect
    interval = changes.interval(effect) if effect else ""
    cells = [
        (_title(pair), ""),
        _middle(pair.there, pair.unit),
        _middle(pair.here, pair.unit),
        (changes.change(effect) if effect else "–", interval),
        (f"{100 * pair.larger:.0f} % of pairs", ""),
        ("not known" if pair.usual is None else plus_minus(pair.usual), ""),
        (pair.word, ""),
    ]
    return Line(cells, _MOODS.get(pair.word, "calm"))


def _middle(values: Sequence[float], unit: str) -> tuple[str, str]:
    return quantity(median(values), unit), counted(len(values), "repeat")


def _drawn(pair: Pair, found: Comparison) -> dict[str, Any]:
    return {
        "title": _title(pair),
        "word": pair.word,
        "mood": _MOODS.get(pair.word, "calm"),
        "chart": _chart(pair, found),
    }


def _chart(pair: Pair, found: Comparison) -> Chart:
    """Draws every repeat of both runs, the first on top, with median and interval; the axis need not begin at zero."""
    both = [*pair.here, *pair.there]
    spare = _MARGIN * (max(both) - min(both)) or _MARGIN * max(abs(max(both)), 1e-12)
    names = (found.there, found.here)
    notes = [quantity(median(values), pair.unit) for values in (pair.there, pair.here)]
    edges = sides(names, notes)
    axis = axis_between(max(0.0, min(both) - spare), max(both) + spare, pair.unit, edges.left, edges.right)
    layout = Layout()
    rows = [
        _row(name, values, pair, axis, layout, (note, edges.notes))
        for name, values, note in zip(names, (pair.there, pair.here), notes, strict=True)
    ]
    told = "; ".join(f"{row.label} {row.note}" for row in rows)
    return Chart(f"{_title(pair)}: {told}", layout.y, axis, rows, letters=edges.letters)


def _row(
    name: str, values: Sequence[float], pair: Pair, axis: Axis, layout: Layout, note: tuple[str, float]
) -> Row:
    height = float(min(110, 30 + 6 * len(values)))
    middle = layout.place("", height)
    step = (height - 18) / max(1, len(values) - 1)
    top = middle if len(values) == 1 else middle - height / 2 + 9
    dots = [
        Dot(axis.x(value), round(top + n * step, 1), f"repeat {n + 1}: {quantity(value, pair.unit)}")
        for n, value in enumerate(values)
    ]
    interval = median_interval(values)
    return Row(
        label=name,
        detail=counted(len(values), "repeat"),
        y=middle,
        height=height,
        kind=role_of(pair.operation),
        dots=dots,
        span=None if interval is None else (axis.x(interval.low), axis.x(interval.high)),
        mark=axis.x(median(values)),
        note=note[0],
        note_x=note[1],
    )
