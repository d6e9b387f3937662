"""The rows of the report's tables: what each cell says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tasks.history import changes
from tasks.history.columns import VERDICT, table_rows
from tasks.history.limits import Known, share_of
from tasks.history.quantities import between, plus_minus, quantity, seconds, speed
from tasks.history.report.spark import Spark
from tasks.history.results import Results
from tasks.history.summary import OperationSummary
from tasks.history.verdict import FAILED, SeriesVerdict, Verdict, Verdicts, series_words

Cell = tuple[str, str]
"""What a cell says, and what stands small below it, maybe on several lines."""

_MOODS: Mapping[str, str] = {
    Verdict.PASS: "good",
    Verdict.IMPROVED: "good",
    Verdict.REGRESSED: "bad",
    Verdict.NOT_RUN: "bad",
    FAILED: "bad",
}

OPERATION_HEADINGS = (
    "operation",
    "median",
    "interval of the median",
    "fastest … slowest",
    "payload a second",
    "slowest worker",
    "measuring it took",
)


@dataclass(frozen=True)
class Line:
    """A row of a table. With a `mood` the last cell is a verdict; the first leads to `anchor` here, or `link`.

    `spark` stands in the second cell.
    """

    cells: Sequence[Cell]
    mood: str = ""
    anchor: str = ""
    link: str = ""
    spark: Spark | None = None


def mood_of(verdict: str) -> str:
    """Returns the colour, in a word, in which a verdict stands."""
    return _MOODS.get(verdict, "calm")


def result_lines(results: Results, verdicts: Verdicts) -> list[Line]:
    """Returns a line per point, cells as in the terminal's table."""
    return [
        Line([_cell(text) for text in row.values()], mood_of(row[VERDICT]), f"point-{point.point}")
        for point, row in zip(results.points, table_rows(results, verdicts), strict=True)
    ]


def series_headings(verdicts: Verdicts) -> Sequence[str]:
    """Returns the headings of what `series_line` returns."""
    baseline = f"median of {len(verdicts.baseline)} runs" if len(verdicts.baseline) > 1 else "baseline"
    return ("series", "this run", "previous run", baseline, "change", "noise of runs", "verdict")


def series_line(one: SeriesVerdict, names: Mapping[int, str]) -> Line:
    """Returns how a series that has an effect differs from earlier runs; `names` are the points'."""
    effect = one.effect
    assert effect is not None
    beside = "\n".join(filter(None, (changes.interval(effect), changes.counted_from(effect))))
    floor = "–" if effect.noise_floor is None else plus_minus(effect.noise_floor)
    previous = "–" if one.previous_median is None else quantity(one.previous_median, one.unit)
    cells = [
        (series_words(one), names[one.point]),
        (quantity(effect.current_median, one.unit), ""),
        (previous, ""),
        (quantity(effect.baseline_median, one.unit), ""),
        (changes.change(effect), beside),
        (floor, effect.basis),
        (one.verdict.value, one.reason),
    ]
    return Line(cells, mood_of(one.verdict))


def operation_line(one: OperationSummary, known: Known) -> Line:
    """Returns how long an operation took; headings: OPERATION_HEADINGS. `known` are the limits of all workers."""
    time, share = one.time, share_of(one, known)
    interval = between(time.interval, "s")
    sure = f"{100 * time.interval.confidence:.3g} %" if time.interval else "one repeat has none"
    warm = f", {time.warmups} warm-up" if time.warmups else ""
    straggle = "–" if one.straggle is None else f"worker {one.slowest}"
    cells = [
        (one.operation, f"{time.n} repeat{'s' * (time.n > 1)}{warm}{_cached(one)}"),
        (seconds(time.median), ""),
        (interval or "–", sure),
        (f"{seconds(time.smallest)} … {seconds(time.largest)}", ""),
        ("–" if one.bytes_per_s is None else speed(one.bytes_per_s), share.words if share else ""),
        (straggle, "" if one.straggle is None else f"{one.straggle:.2f}× the usual"),
        _cost(one),
    ]
    return Line(cells)


def _cached(one: OperationSummary) -> str:
    return "" if one.cached is None else f"\n{100 * one.cached:.0f} % of it in the page cache"


def _cost(one: OperationSummary) -> Cell:
    if one.measuring_s is None:
        return "–", ""
    return seconds(
        one.measuring_s
    ), f"{100 * one.measuring_s / one.time.median:.2g} % of it, outside of the time"


def _cell(text: str) -> Cell:
    first, _, second = text.partition("\n")
    return first, second
