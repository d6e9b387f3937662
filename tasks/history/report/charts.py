"""The charts of a report. Axes of times and sizes begin at zero: twice as long is twice as long to the eye. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from runtime.contract.metrics import TIME
from runtime.contract.roles import role_of
from tasks.history import changes
from tasks.history.columns import headline
from tasks.history.effect import Effect
from tasks.history.labels import labels
from tasks.history.measurement import Measurement
from tasks.history.quantities import seconds, size
from tasks.history.report.axis import Axis, axis_from_zero, axis_of_change
from tasks.history.report.chart import MOST_ROWS, Bar, Chart, Dot, Layout, Row, Sides, sides
from tasks.history.results import Results
from tasks.history.summary import OperationSummary, is_shown, stragglers, worker_medians
from tasks.history.verdict import SeriesVerdict, series_words

Summaries = Mapping[int, Sequence[OperationSummary]]


def samples_chart(times: Sequence[Measurement], summaries: Mapping[str, OperationSummary]) -> Chart | None:
    """Draws every sample of every operation of a point: repeats from the top of a row to its bottom."""
    found = [time for time in times if time.operation in summaries]
    if not found:
        return None
    shown, layout = found[:MOST_ROWS], Layout()
    edges = sides(
        (time.operation for time in shown),
        (seconds(summaries[time.operation].time.median) for time in shown),
    )
    axis = axis_from_zero(max(_largest(time) for time in shown), "s", edges.left, edges.right)
    rows = []
    for time in shown:
        height = float(min(110, 30 + 6 * len(time.repeats)))
        row = _samples_row(time, summaries[time.operation], axis, layout.place("", height), height)
        rows.append(replace(row, note_x=edges.notes))
    return _chart("All samples and their medians", axis, edges, rows, layout, len(found))


def _samples_row(
    time: Measurement, summary: OperationSummary, axis: Axis, middle: float, height: float
) -> Row:
    repeats = len(time.repeats)
    step = (height - 18) / max(1, repeats - 1)
    dots = []
    for index, values in enumerate(time.values):
        y = middle if repeats == 1 else middle - height / 2 + 9 + index * step
        warm = bool(time.warmup[index])
        slowest = np.nanmax(values)  # every row of a measurement holds at least one value
        for worker, value in zip(time.workers, values.tolist(), strict=True):
            if not np.isnan(value):
                told = (
                    f"repeat {time.repeats[index] + 1}{', warm-up' * warm}, worker {worker}: {seconds(value)}"
                )
                dots.append(
                    Dot(axis.x(value), round(y, 1), told, warm, bool(value < slowest), axis.beyond(value))
                )
    interval = summary.time.interval
    return Row(
        label=time.operation,
        detail=counted(summary),
        y=middle,
        height=height,
        kind=role_of(time.operation),
        dots=sorted(dots, key=lambda dot: not dot.faint),
        span=None if interval is None else (axis.x(interval.low), axis.x(interval.high)),
        mark=axis.x(summary.time.median),
        note=seconds(summary.time.median),
    )


def counted(summary: OperationSummary) -> str:
    """Returns how many repeats count, and how many were warm-up."""
    warm = f" + {summary.time.warmups} warm-up" if summary.time.warmups else ""
    return f"{summary.time.n} repeat{'s' * (summary.time.n > 1)}{warm}"


def durations_chart(results: Results, summaries: Summaries) -> Chart | None:
    """Draws how long a save blocks, and how long it goes on behind the back of training: a bar per point."""
    names = labels(results.points)
    parts = {
        names[point.point]: [
            one
            for one in (headline(summaries[point.point], "save"), headline(summaries[point.point], "wait"))
            if one is not None
        ]
        for point in results.points
    }
    found = [(name, present) for name, present in parts.items() if present]
    if not found:
        return None
    shown = found[:MOST_ROWS]
    longest = max(sum(one.time.median for one in present) for _, present in shown)
    notes = [" + ".join(seconds(one.time.median) for one in present) for _, present in shown]
    edges = sides(["save"], notes)
    axis, layout, rows = axis_from_zero(longest, "s", edges.left, edges.right), Layout(), []
    for (name, present), note in zip(shown, notes, strict=True):
        bars, reached = [], 0.0
        for one in present:
            left, right = axis.x(reached), axis.x(reached + one.time.median)
            bars.append(
                Bar(left, max(1.0, right - left), one.role, f"{one.operation}: {seconds(one.time.median)}")
            )
            reached += one.time.median
        rows.append(Row("save", layout.place(name), bars=bars, note=note, note_x=axis.x(reached) + 8))
    return _chart("Blocking and background time of a save", axis, edges, rows, layout, len(found))


def memory_chart(results: Results, summaries: Summaries) -> Chart | None:
    """Draws how much memory an operation needed beyond what was there, against the bytes that it moved."""
    names = labels(results.points)
    found = [
        (names[point.point], one, one.memory_bytes)
        for point in results.points
        for one in summaries[point.point]
        if one.memory_bytes is not None and is_shown(one.operation, point)
    ]
    if not found:
        return None
    shown = found[:MOST_ROWS]
    largest = max(max(grown, one.payload_per_worker or 0.0) for _, one, grown in shown)
    notes = [
        f"{size(grown)}{f' · {grown / one.payload_per_worker:.2f}×' if one.payload_per_worker else ''}"
        for _, one, grown in shown
    ]
    edges = sides((one.operation for _, one, _ in shown), notes)
    axis, layout, rows = axis_from_zero(largest, "bytes", edges.left, edges.right), Layout(), []
    for (name, one, grown), note in zip(shown, notes, strict=True):
        moved = one.payload_per_worker
        rows.append(
            Row(
                one.operation,
                layout.place(name),
                bars=[Bar(axis.x(0), max(1.0, axis.x(grown) - axis.x(0)), one.role, f"+{size(grown)}")],
                mark=None if moved is None else axis.x(moved),
                note=note,
                note_x=max(axis.x(grown), axis.x(moved or 0.0)) + 8,
            )
        )
    return _chart("Memory beyond what was in use", axis, edges, rows, layout, len(found))


def stragglers_chart(results: Results) -> Chart | None:
    """Draws each worker's own median per operation; None when there is one worker only."""
    names = labels(results.points)
    found = [
        (names[point.point], time, worker_medians(time))
        for point in results.points
        if point.status == "passed"
        for time in results.of_point(point.point)
        if time.metric == TIME and is_shown(time.operation, point) and len(time.workers) > 1
        if (~time.warmup).any()
    ]
    if not found:
        return None
    shown = found[:MOST_ROWS]
    largest = max(float(np.nanmax(medians)) for _, _, medians in shown)
    notes = [_behind(time) for _, time, _ in shown]
    edges = sides((time.operation for _, time, _ in shown), notes)
    axis, layout, rows = axis_from_zero(largest, "s", edges.left, edges.right), Layout(), []
    for (name, time, medians), note in zip(shown, notes, strict=True):
        y, slow = layout.place(name), np.nanmax(medians)
        dots = [
            Dot(axis.x(value), y, f"worker {worker}: {seconds(value)}", faint=bool(value < slow))
            for worker, value in zip(time.workers, medians.tolist(), strict=True)
            if not np.isnan(value)
        ]
        note_x = max(dot.x for dot in dots) + 10
        rows.append(Row(time.operation, y, kind=role_of(time.operation), dots=dots, note=note, note_x=note_x))
    return _chart("Median of each worker", axis, edges, rows, layout, len(found))


def _behind(time: Measurement) -> str:
    """Says which worker is the slowest, and by how much; empty when nobody knows."""
    ratio, slowest = stragglers(time)
    return "" if ratio is None else f"worker {slowest}: {ratio:.2f}× the usual"


def effects_chart(results: Results, series: Sequence[SeriesVerdict]) -> Chart | None:
    """Draws how much each series differs from earlier runs, with its interval; None without a baseline."""
    names = labels(results.points)
    found = [(one, one.effect) for one in series if one.effect is not None]
    if not found:
        return None
    shown = found[:MOST_ROWS]
    notes = [_told(effect) for _, effect in shown]
    edges = sides((series_words(one) for one, _ in shown), notes)
    axis, layout, rows = _change_axis([effect for _, effect in shown], edges), Layout(), []
    for (one, effect), note in zip(shown, notes, strict=True):
        y = layout.place(names[one.point])
        low, high = _drawn(effect)
        spans = low < high
        dot = Dot(axis.x(effect.effect), y, one.reason, edge=axis.beyond(effect.effect))
        rows.append(
            Row(
                series_words(one),
                y,
                kind=role_of(one.operation),
                dots=[dot],
                span=(axis.x(low), axis.x(high)) if spans else None,
                open_left=spans and low < axis.low,
                open_right=spans and axis.beyond(high),
                note=note,
                note_x=edges.notes,
            )
        )
    return _chart("Change against earlier runs", axis, edges, rows, layout, len(found), zero=axis.x(0))


def _told(effect: Effect) -> str:
    change, interval = changes.change(effect), changes.interval(effect)
    return f"{change} ({interval})" if interval else change


def _drawn(effect: Effect) -> tuple[float, float]:
    """Returns the ends of the interval, as far as it says something; else twice the effect."""
    if effect.low is None or effect.high is None or not changes.is_bounded(effect):
        return effect.effect, effect.effect
    return effect.low, effect.high


def _change_axis(effects: Sequence[Effect], edges: Sides) -> Axis:
    """Returns an axis for effects and intervals; what reaches far must not squeeze the others together."""
    centres = [min(effect.effect, changes.FAR - 1) for effect in effects]
    most = min(max(0.1, *(4 * abs(centre) for centre in centres)), changes.FAR - 1)
    ends = [_drawn(effect) for effect in effects]
    low = min(*centres, *(max(low, -most) for low, _ in ends))
    high = max(*centres, *(min(high, most) for _, high in ends))
    return axis_of_change(low, high, edges.left, edges.right)


def _largest(time: Measurement) -> float:
    """Returns the largest value that counts: a slow warm-up shall not squeeze the others together."""
    counting = time.values[~time.warmup]
    return float(np.nanmax(counting)) if counting.size else 0.0


def _chart(
    what: str,
    axis: Axis,
    edges: Sides,
    rows: Sequence[Row],
    layout: Layout,
    found: int,
    zero: float | None = None,
) -> Chart:
    told = "; ".join(f"{row.label} {row.note}" for row in rows)
    return Chart(
        f"{what}: {told}", layout.y, axis, rows, layout.headings, zero, found - len(rows), edges.letters
    )
