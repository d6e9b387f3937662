"""The results as a table of text: for the terminal, and for whatever the text is piped into."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from runtime.contract.metrics import TIME
from tasks.history import changes
from tasks.history.columns import BENCHMARK, VERDICT, columns_of, table_rows
from tasks.history.found import found_lines
from tasks.history.intervals import CONFIDENCE
from tasks.history.labels import labels
from tasks.history.limits import beyond
from tasks.history.quantities import printable
from tasks.history.results import Results
from tasks.history.stragglers import hosts_of, straggler_lines
from tasks.history.summary import OperationSummary, summarize_passed
from tasks.history.verdict import FAILED, Verdict, Verdicts

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

_ENDLESS = 100_000
"""Letters of a line that nobody has to fit on a screen."""

_STYLES: Mapping[str, str] = {
    Verdict.PASS: "green",
    Verdict.IMPROVED: "green",
    Verdict.REGRESSED: "bold red",
    Verdict.NOT_RUN: "bold red",
    FAILED: "bold red",
}


def render_table(
    results: Results, verdicts: Verdicts, *, width: int | None = None, colour: bool = False
) -> str:
    """Returns table, verdict and causes of failure as text, no line wider than `width`; None: as wide as it takes.

    No word is broken that fits on a line: where the table is too wide, its rows become lists.
    """
    from rich.console import Console
    from rich.measure import Measurement

    sink = io.StringIO()
    columns = width or _ENDLESS
    console = Console(
        file=sink, width=columns, force_terminal=colour, color_system="standard" if colour else None
    )
    table = _table(results, verdicts)
    needed = Measurement.get(console, console.options.update(max_width=_ENDLESS), table).maximum
    console.print(table if needed <= columns else _list(results, verdicts))
    for line, style in _lines(results, verdicts):
        console.print(line, style=style, markup=False, highlight=False)
    return "\n".join(line.rstrip() for line in sink.getvalue().splitlines()) + "\n"


def print_table(results: Results, verdicts: Verdicts) -> None:
    """Prints the table to stderr, coloured and as wide as the terminal where that is one."""
    on_screen = sys.stderr.isatty()
    # Not shutil's: that asks how wide stdout is.
    width = os.get_terminal_size(sys.stderr.fileno()).columns or 110 if on_screen else None
    print(render_table(results, verdicts, width=width, colour=on_screen), file=sys.stderr, end="")


def confidence_words(operations: Iterable[OperationSummary]) -> str:
    """Says how sure the least sure of the intervals is; empty when there is none."""
    found = [one.time.interval.confidence for one in operations if one.time.interval]
    if not found:
        return ""
    low = min(found)
    return (
        "with at least 95 %" if low >= CONFIDENCE else f"with {100 * low:.3g} % only (95 % takes six repeats)"
    )


def _table(results: Results, verdicts: Verdicts) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in columns_of(results):
        figures = name not in (BENCHMARK, VERDICT)
        heading = _text(name.replace(" (", "\n("))
        table.add_column(heading, justify="right" if figures else "left", no_wrap=True)
    for row in table_rows(results, verdicts):
        cells = {**row, BENCHMARK: row[BENCHMARK].replace(", ", "\n")}
        table.add_row(*(_text(text, verdict=name == VERDICT) for name, text in cells.items()))
    return table


def _list(results: Results, verdicts: Verdicts) -> RenderableType:
    """Returns the same one below the other, for a terminal in which no table fits."""
    from rich.console import Group

    blocks = []
    for row in table_rows(results, verdicts):
        block = _text(row[BENCHMARK])
        for name in list(row)[1:-1]:
            block.append(f"\n  {printable(name)}: {printable(row[name].replace(chr(10), ', '))}")
        blocks.append(block.append("\n  ").append_text(_text(row[VERDICT], verdict=True)))
    return Group(*blocks)


def _text(cell: str, *, verdict: bool = False) -> Text:
    from rich.text import Text

    return Text(printable(cell), _STYLES.get(cell, "") if verdict else "")


def _lines(results: Results, verdicts: Verdicts) -> list[tuple[str, str]]:
    names = labels(results.points)
    bad = [
        (printable(f"{names[point.point]}: {point.status.replace('_', ' ')}: {point.cause}"), "red")
        for point in results.points
        if point.status != "passed"
    ]
    troubles = [
        (printable(trouble.what), "yellow") for trouble in results.troubles if trouble.kind != "not_run"
    ]
    troubles += [
        (printable(line), "yellow")
        for line in (*verdicts.machine, *straggler_lines(results, hosts_of(results)))
    ]
    troubles += [(line, "dim") for line in beyond(results)]
    verdict = verdicts.of_run(results)
    style = _STYLES.get(verdict, "bold")
    sure = confidence_words(one for ones in summarize_passed(results).values() for one in ones)
    if sure:
        effects = [series.effect for series in verdicts.series if series.effect and series.metric == TIME]
        below = ", then the change against earlier runs with its interval" if effects else ""
        means = f" ({changes.UNBOUNDED_MEANS})" if changes.any_unbounded(effects) else ""
        bad.insert(
            0, (f"medians, below them intervals that hold the true median {sure}{below}{means}", "dim")
        )
    found = [(printable(line), "") for line in found_lines(results)]
    return [*bad, *found, *troubles, (f"verdict: {verdict} ({verdicts.reason})", style)]
