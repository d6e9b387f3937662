"""The results as a table: for the terminal, and as rows for whoever draws a table of their own."""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Sequence

from tasks.history.labels import labels
from tasks.history.quantities import between, seconds, size, speed
from tasks.history.results import PointOutcome, Results
from tasks.history.summary import OperationSummary, Role, summarize_results
from tasks.history.verdict import Verdict, Verdicts

COLUMNS = (
    "benchmark",
    "save (blocking)",
    "wait (background)",
    "restore",
    "save speed",
    "peak memory",
    "verdict",
)

_STYLES = {
    Verdict.PASS: "green",
    Verdict.IMPROVED: "green",
    Verdict.REGRESSED: "bold red",
    Verdict.NOT_RUN: "bold red",
}


def table_rows(results: Results, verdicts: Verdicts) -> list[dict[str, str]]:
    """Returns a row per point, keys as in COLUMNS, in the words that people read."""
    summaries, names = summarize_results(results), labels(results.points)
    return [_row(point, names[point.point], summaries[point.point], verdicts) for point in results.points]


def render_table(
    results: Results, verdicts: Verdicts, *, width: int | None = None, colour: bool = False
) -> str:
    """Returns table, verdict and causes of failure as text, no line wider than `width` (default: the
    terminal's).
    """
    from rich.console import Console

    sink = io.StringIO()
    columns = width or shutil.get_terminal_size((110, 24)).columns
    console = Console(
        file=sink, width=columns, force_terminal=colour, color_system="standard" if colour else None
    )
    console.print(_table(results, verdicts))
    for line, style in _lines(results, verdicts):
        console.print(line, style=style, markup=False, highlight=False)
    return "\n".join(line.rstrip() for line in sink.getvalue().splitlines()) + "\n"


def print_table(results: Results, verdicts: Verdicts) -> None:
    """Prints the table to stderr, coloured where that is a terminal."""
    print(render_table(results, verdicts, colour=sys.stderr.isatty()), file=sys.stderr, end="")


def headline(operations: Sequence[OperationSummary], role: Role) -> OperationSummary | None:
    """Returns the operation to show for a role: of several (save_0, save_1 …) the one that took longest."""
    return max((one for one in operations if one.role == role), key=lambda one: one.time.median, default=None)


def duration(operation: OperationSummary | None) -> str:
    """Returns median and interval of an operation's time, or a dash."""
    if operation is None:
        return "–"
    interval = between(operation.time.interval, "s")
    return seconds(operation.time.median) + (f"\n({interval})" if interval else "")


def _row(
    point: PointOutcome, name: str, operations: Sequence[OperationSummary], verdicts: Verdicts
) -> dict[str, str]:
    save = headline(operations, "save")
    memory = max((one.memory_bytes for one in operations if one.memory_bytes is not None), default=None)
    verdict = Verdict.NOT_RUN if point.status != "passed" else verdicts.of_point(point.point)
    told = verdict.value if point.status != "failed" else "NOT_RUN (failed)"
    cells = (
        name,
        duration(save),
        duration(headline(operations, "wait")),
        duration(headline(operations, "restore")),
        speed(_whole_save(operations)) if _whole_save(operations) else "–",
        "–" if memory is None else f"+{size(memory)}",
        told,
    )
    return dict(zip(COLUMNS, cells, strict=True))


def _whole_save(operations: Sequence[OperationSummary]) -> float:
    """Returns the speed of a save until it is durable: payload over blocking and background time. 0: not
    known.
    """
    save, wait = headline(operations, "save"), headline(operations, "wait")
    if save is None or not save.payload_bytes:
        return 0.0
    return save.payload_bytes / (save.time.median + (wait.time.median if wait else 0.0))


def _table(results: Results, verdicts: Verdicts) -> object:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in COLUMNS:
        figures = name not in ("benchmark", "verdict")
        table.add_column(name, justify="right" if figures else "left", overflow="fold", min_width=7)
    for row in table_rows(results, verdicts):
        style = _STYLES.get(Verdict(row["verdict"].split()[0]), "")
        cells = [Text(_printable(row[name])) for name in COLUMNS[:-1]]
        table.add_row(*cells, Text(row["verdict"], style=style))
    return table


def _lines(results: Results, verdicts: Verdicts) -> list[tuple[str, str]]:
    names = labels(results.points)
    bad = [
        (f"{names[point.point]}: {point.status.replace('_', ' ')}: {_printable(point.cause)}", "red")
        for point in results.points
        if point.status != "passed"
    ]
    troubles = [
        (_printable(trouble.what), "yellow") for trouble in results.troubles if trouble.kind != "not_run"
    ]
    style = _STYLES.get(verdicts.overall, "bold")
    return [*bad, *troubles, (f"verdict: {verdicts.overall.value} ({verdicts.reason})", style)]


def _printable(text: str) -> str:
    """Returns text without what would steer a terminal: names and causes come from outside."""
    return "".join(letter if letter.isprintable() or letter == "\n" else "�" for letter in text)
