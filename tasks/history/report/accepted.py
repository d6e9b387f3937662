"""The page of an acceptance: verdict, what each variant costs, every save and restore, what was proved. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from runtime.contract.counting import counted
from runtime.contract.roles import role_of
from tasks.history.acceptance import OPERATIONS, Acceptance, Judged
from tasks.history.acceptance_cost import Times
from tasks.history.acceptance_words import cost_cells, stored_spread, time_cells
from tasks.history.changes import ratio
from tasks.history.quantities import between, percent, quantity, seconds, size
from tasks.history.report.axis import Axis, axis_between
from tasks.history.report.chart import WIDTH, Chart, Dot, Layout, Row, sides
from tasks.history.report.lines import Line
from tasks.history.report.page import template
from tasks.history.report.series_page import style

TIME_HEADINGS = ("variant", "median", "spread", "outliers", "cost", "against the limit")
CHECK_HEADINGS = ("variant", "proved")
STORED_HEADINGS = ("variant", "checkpoints", "objects of one", "bytes of one", "more than the base")

_MOODS: Mapping[object, str] = {
    "accepted": "good",
    "refused": "bad",
    "within": "good",
    "over": "bad",
    True: "good",
    False: "bad",
}
_PROVED = {True: "yes", False: "no", None: "not known"}
_MARGIN = 0.04


def render_accepted(found: Acceptance, title: str, facts: Sequence[tuple[str, str]] = ()) -> str:
    """Returns the page: one HTML document that loads nothing. `facts`: what else there is to say, terms and values."""
    return template("acceptance.html.j2").render(
        title=title,
        mood=_MOODS.get(found.verdict, "calm"),
        verdict=found.verdict,
        answer=answer(found),
        base=found.base,
        limit=percent(found.limit)[1:],
        variants=[
            Line([(one.variant, ""), (one.verdict, one.reason)], _mood(one.verdict)) for one in found.variants
        ],
        variant_headings=("variant", "verdict"),
        times=[_time_line(one, name) for one in found.variants for name in OPERATIONS if name in one.times],
        time_headings=TIME_HEADINGS,
        checks=[
            # What was seen is as long as it is: it wraps below the answer, which a table too wide would hide.
            Line([(one.variant, check.name), (_PROVED[check.passed], check.told)], _mood(check.passed))
            for one in found.variants
            for check in one.checks
        ],
        check_headings=CHECK_HEADINGS,
        stored=[_stored_line(one, found.variants[0]) for one in found.variants if one.stored],
        stored_headings=STORED_HEADINGS,
        drawn=[drawn for name in OPERATIONS if (drawn := _drawn(found, name)) is not None],
        facts=list(facts),
        style=style(),
        width=WIDTH,
    )


def answer(found: Acceptance) -> str:
    """Returns the one thing that a reader should know."""
    others = [one for one in found.variants if one.variant != found.base] or list(found.variants)
    refused, unknown = (
        [one for one in found.variants if one.verdict == word] for word in ("refused", "cannot tell")
    )
    if refused:
        return "; ".join(f"{one.variant} is refused: {one.reason}" for one in refused) + "."
    if unknown:
        return "; ".join(f"Of {one.variant} it cannot be told: {one.reason}" for one in unknown) + "."
    return f"{', '.join(one.variant for one in others)}: {counted(len(others), 'variant')} accepted."


def _mood(word: object) -> str:
    return _MOODS.get(word, "calm")


def _time_line(one: Judged, operation: str) -> Line:
    times, cost = one.times[operation], one.costs.get(operation)
    _, median, spread, outliers = time_cells(times)
    effect, interval, standing = cost_cells(cost)
    cells = [
        (one.variant, f"{operation}, {counted(times.n, 'value')}"),
        (median, between(times.interval, "s")),
        (spread, ""),
        (outliers, ""),
        (effect, "" if interval == "–" else interval),
        (standing, cost.reason if cost else "the others are held against it"),
    ]
    return Line(cells, _mood(standing))


def _stored_line(one: Judged, base: Judged) -> Line:
    more = "–"
    if one.stored_bytes is not None and base.stored_bytes and one is not base:
        more = ratio(one.stored_bytes / base.stored_bytes - 1)
    numbers, sizes = stored_spread(one)
    cells = [
        (one.variant, ""),
        (str(len(one.stored)), ""),
        (quantity(one.objects or 0.0, "count"), numbers),
        (size(one.stored_bytes or 0.0), sizes),
        (more, ""),
    ]
    return Line(cells)


def _drawn(found: Acceptance, operation: str) -> dict[str, Any] | None:
    """Returns the drawing of every value of an operation, a row for each variant; None: there is none."""
    groups = [(one.variant, one.times[operation]) for one in found.variants if operation in one.times]
    return {"title": operation, "chart": _chart(operation, groups)} if groups else None


def _chart(operation: str, groups: Sequence[tuple[str, Times]]) -> Chart:
    """The axis is that of what is usual: outliers to the right of it stand at its edge."""
    low, high = min(times.low for _, times in groups), max(times.high for _, times in groups)
    spare = _MARGIN * (high - low) or _MARGIN * high or 1e-9
    notes = [seconds(times.median) for _, times in groups]
    edges = sides([name for name, _ in groups], notes)
    axis = axis_between(max(0.0, low - spare), high + spare, "s", edges.left, edges.right)
    layout = Layout()
    rows = [
        _row(name, times, operation, axis, layout, (note, edges.notes))
        for (name, times), note in zip(groups, notes, strict=True)
    ]
    told = "; ".join(f"{row.label} {row.note}" for row in rows)
    return Chart(f"{operation}: {told}", layout.y, axis, rows, letters=edges.letters)


def _row(name: str, times: Times, operation: str, axis: Axis, layout: Layout, note: tuple[str, float]) -> Row:
    height = float(min(110, 30 + 6 * times.n))
    middle = layout.place("", height)
    step = (height - 18) / max(1, times.n - 1)
    top = middle if times.n == 1 else middle - height / 2 + 9
    dots = [
        Dot(
            axis.x(value),
            round(top + n * step, 1),
            f"no. {n + 1}: {seconds(value)}",
            hollow=n in times.outliers,
            edge=axis.beyond(value),
        )
        for n, value in enumerate(times.values)
    ]
    interval = times.interval
    return Row(
        label=name,
        detail=counted(times.n, "value"),
        y=middle,
        height=height,
        kind=role_of(operation),
        dots=dots,
        span=None if interval is None else (axis.x(interval.low), axis.x(interval.high)),
        mark=axis.x(times.median),
        note=note[0],
        note_x=note[1],
    )
