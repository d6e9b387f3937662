"""What the report says of disruptions and preemptions: how long it took to go on, and what that is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runtime.contract.disruption import Disruption
from runtime.contract.roles import role_of
from tasks.history.intervals import median
from tasks.history.labels import labels
from tasks.history.measurement import Measurement
from tasks.history.quantities import between, seconds
from tasks.history.report.lines import Cell
from tasks.history.results import PointOutcome, Results
from tasks.history.summary import OperationSummary

PARTS: Mapping[str, str] = {
    "detection_s": "noticed after",
    "queue_s": "waited for its turn",
    "start_s": "started again, JAX joined",
    "setup_s": "ready to restore",
    "restore_s": "restored",
    "first_step_s": "first step",
}
"""Metrics that add up to a recovery, in order, and the headings of their columns."""

TAKEN_AWAY = "its hardware was taken away"

HEADINGS = ("benchmark", "recovery", *PARTS.values(), "went on from step", "steps lost")


def recovery_rows(
    results: Results, summaries: Mapping[int, Sequence[OperationSummary]]
) -> list[tuple[Cell, ...]]:
    """Returns a row for each point that was disrupted, or went on in another attempt, and passed.

    Cells are as in HEADINGS, medians of the repeats.
    """
    names = labels(results.points)
    rows: list[tuple[Cell, ...]] = []
    for point in results.points:
        for one in summaries[point.point]:
            if one.role == "recovery":
                why = disruption_words(point) if point.disruption is not None else TAKEN_AWAY
                about = names[point.point], why
                whole = seconds(one.time.median), between(one.time.interval, "s")
                rows.append((about, whole, *_parts(results.of_point(point.point))))
    return rows


def disruption_words(point: PointOutcome) -> str:
    """Returns what was done to the workers of a point; empty when nothing was, or a newer version wrote it."""
    try:
        asked = Disruption.of(point.disruption)
    except TypeError:
        return ""
    return asked.words if asked else ""


def _parts(measurements: Sequence[Measurement]) -> list[Cell]:
    found = {one.metric: one for one in measurements if role_of(one.operation) == "recovery"}
    cells = [_cell(found[name]) if name in found else ("–", "") for name in PARTS]
    return [*cells, *((_steps(found.get(name)), "") for name in ("resumed_from_step", "lost_steps"))]


def _cell(one: Measurement) -> Cell:
    values = one.combined("max")
    return (seconds(median(values)), "") if len(values) else ("–", "")


def _steps(one: Measurement | None) -> str:
    values = [] if one is None else one.combined("max").tolist()
    if not values:
        return "–"
    low, high = int(min(values)), int(max(values))
    return str(low) if low == high else f"{low} … {high}"
