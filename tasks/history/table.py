"""The results as a table: for the terminal, and as rows for whoever draws a table of their own."""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from runtime.contract.metrics import TIME
from tasks.history.effect import Effect
from tasks.history.intervals import CONFIDENCE
from tasks.history.labels import labels
from tasks.history.quantities import between, percent, printable, seconds, size, speed
from tasks.history.results import PointOutcome, Results
from tasks.history.summary import OperationSummary, Role, summarize_passed
from tasks.history.verdict import Verdict, Verdicts

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

COLUMNS = (
    "benchmark",
    "save (blocking)",
    "wait (background)",
    "restore",
    "save speed (until safe)",
    "peak memory",
    "verdict",
)

RECOVERY = "recovery"
"""A column more, where a point was disrupted."""

_NARROW = 92
"""Letters below which a line cannot hold a table."""

FAILED = "FAILED"
"""Stands in place of a verdict for a point that ran and failed."""

_STYLES: Mapping[str, str] = {
    Verdict.PASS: "green",
    Verdict.IMPROVED: "green",
    Verdict.REGRESSED: "bold red",
    Verdict.NOT_RUN: "bold red",
    FAILED: "bold red",
}


def table_rows(results: Results, verdicts: Verdicts) -> list[dict[str, str]]:
    """Returns a row per point, keys as `columns_of` says, in words for people; figures of those that passed."""
    summaries, names, columns = summarize_passed(results), labels(results.points), columns_of(results)
    rows = (_row(point, names[point.point], summaries[point.point], verdicts) for point in results.points)
    return [{name: row[name] for name in columns} for row in rows]


def columns_of(results: Results) -> tuple[str, ...]:
    """Returns the columns of a run's table: those of recovering only where something was disrupted."""
    if all(point.disruption is None for point in results.points):
        return COLUMNS
    place = COLUMNS.index("restore") + 1
    return (*COLUMNS[:place], RECOVERY, *COLUMNS[place:])


def render_table(
    results: Results, verdicts: Verdicts, *, width: int | None = None, colour: bool = False
) -> str:
    """Returns table, verdict and causes of failure as text, no line wider than `width` (default: the terminal's)."""
    from rich.console import Console

    sink = io.StringIO()
    columns = width or shutil.get_terminal_size((110, 24)).columns
    console = Console(
        file=sink, width=columns, force_terminal=colour, color_system="standard" if colour else None
    )
    console.print(_table(results, verdicts) if columns >= _NARROW else _list(results, verdicts))
    for line, style in _lines(results, verdicts):
        console.print(line, style=style, markup=False, highlight=False)
    return "\n".join(line.rstrip() for line in sink.getvalue().splitlines()) + "\n"


def print_table(results: Results, verdicts: Verdicts) -> None:
    """Prints the table to stderr, coloured where that is a terminal."""
    print(render_table(results, verdicts, colour=sys.stderr.isatty()), file=sys.stderr, end="")


def standing(point: PointOutcome, verdicts: Verdicts) -> str:
    """Returns the verdict on a point; of one that did not pass whether it failed or was never run."""
    if point.status == "failed":
        return FAILED
    return (Verdict.NOT_RUN if point.status == "not_run" else verdicts.of_point(point.point)).value


def headline(operations: Sequence[OperationSummary], role: Role) -> OperationSummary | None:
    """Returns the operation to show for a role: of several (save_0, save_1 …) the one that took longest."""
    return max((one for one in operations if one.role == role), key=lambda one: one.time.median, default=None)


def duration(operation: OperationSummary | None, effect: Effect | None = None) -> str:
    """Returns median and interval of an operation's time, and how it differs from earlier runs; or a dash."""
    if operation is None:
        return "–"
    lines = (seconds(operation.time.median), between(operation.time.interval, "s"), change(effect))
    return "\n".join(line for line in lines if line)


def change(effect: Effect | None) -> str:
    """Returns how much a run differs from earlier ones, with the interval; empty when there is nothing to compare."""
    if effect is None:
        return ""
    if effect.low is None or effect.high is None:
        return percent(effect.effect)
    return f"{percent(effect.effect)}\n{percent(effect.low)} … {percent(effect.high)}"


def confidence_words(operations: Iterable[OperationSummary]) -> str:
    """Says how sure the least sure of the intervals is; empty when there is none."""
    found = [one.time.interval.confidence for one in operations if one.time.interval]
    if not found:
        return ""
    low = min(found)
    return (
        "with at least 95 %" if low >= CONFIDENCE else f"with {100 * low:.3g} % only (95 % takes six repeats)"
    )


def _row(
    point: PointOutcome, name: str, operations: Sequence[OperationSummary], verdicts: Verdicts
) -> dict[str, str]:
    def told(role: Role) -> str:
        operation = headline(operations, role)
        return duration(operation, _effect(verdicts, point, operation))

    memory = max((one.memory_bytes for one in operations if one.memory_bytes is not None), default=None)
    cells = (
        name,
        told("save"),
        told("wait"),
        told("restore"),
        speed(_whole_save(operations)) if _whole_save(operations) else "–",
        "–" if memory is None else f"+{size(memory)}",
        standing(point, verdicts),
    )
    return {**dict(zip(COLUMNS, cells, strict=True)), RECOVERY: told("recovery")}


def _effect(verdicts: Verdicts, point: PointOutcome, operation: OperationSummary | None) -> Effect | None:
    """Returns how an operation's time differs from earlier runs, where that was judged."""
    for series in verdicts.series:
        if operation and (series.point, series.operation, series.metric) == (
            point.point,
            operation.operation,
            TIME,
        ):
            return series.effect
    return None


def _whole_save(operations: Sequence[OperationSummary]) -> float:
    """Returns the speed of a save until it is durable: payload over blocking and background time. 0: not known."""
    save, wait = headline(operations, "save"), headline(operations, "wait")
    if save is None or not save.payload_bytes:
        return 0.0
    return save.payload_bytes / (save.time.median + (wait.time.median if wait else 0.0))


def _table(results: Results, verdicts: Verdicts) -> RenderableType:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    columns = columns_of(results)
    for name in columns:
        figures = name not in ("benchmark", "verdict")
        heading = name.replace(" (", "\n(")
        table.add_column(heading, justify="right" if figures else "left", overflow="fold", no_wrap=figures)
    for row in table_rows(results, verdicts):
        cells = [_text(row["benchmark"].replace(", ", "\n")), *(_text(row[name]) for name in columns[1:-1])]
        table.add_row(*cells, _text(row["verdict"], verdict=True))
    return table


def _list(results: Results, verdicts: Verdicts) -> RenderableType:
    """Returns the same one below the other, for a terminal in which no table fits."""
    from rich.console import Group

    blocks = []
    for row in table_rows(results, verdicts):
        block = _text(row["benchmark"])
        for name in columns_of(results)[1:-1]:
            block.append(f"\n  {name}: {printable(row[name].replace(chr(10), ', '))}")
        blocks.append(block.append("\n  ").append_text(_text(row["verdict"], verdict=True)))
    return Group(*blocks)


def _text(cell: str, *, verdict: bool = False) -> Text:
    from rich.text import Text

    return Text(printable(cell), _STYLES.get(cell, "") if verdict else "")


def _lines(results: Results, verdicts: Verdicts) -> list[tuple[str, str]]:
    names = labels(results.points)
    bad = [
        (f"{names[point.point]}: {point.status.replace('_', ' ')}: {printable(point.cause)}", "red")
        for point in results.points
        if point.status != "passed"
    ]
    troubles = [
        (printable(trouble.what), "yellow") for trouble in results.troubles if trouble.kind != "not_run"
    ]
    style = _STYLES.get(verdicts.overall, "bold")
    sure = confidence_words(one for ones in summarize_passed(results).values() for one in ones)
    if sure:
        compared = any(series.effect for series in verdicts.series)
        below = ", then the change against earlier runs with its interval" if compared else ""
        bad.insert(0, (f"medians, below them intervals that hold the true median {sure}{below}", "dim"))
    return [*bad, *troubles, (f"verdict: {verdicts.overall.value} ({verdicts.reason})", style)]
