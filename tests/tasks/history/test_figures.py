"""What programs read: numbers, the same words as the table, and names that a page explains."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tasks.history.columns import table_rows
from tasks.history.comparison import judge, past_run
from tasks.history.figures import run_figures
from tests.tasks.history.test_comparison import finished, measured

PAGE = Path(__file__).parents[3] / "docs" / "results.md"


def names_in(figures: Any) -> Iterator[str]:
    if isinstance(figures, dict):
        for name, value in figures.items():
            yield name
            yield from names_in(value)
    elif isinstance(figures, list):
        for one in figures:
            yield from names_in(one)


def test_every_name_is_explained_and_none_besides() -> None:
    figures = {"report": "/r", **run_figures(finished(), judge(finished(), []))}
    tables = PAGE.read_text().partition("## For programs")[2]
    cells = [line.split("|")[1] for line in tables.splitlines() if line.startswith("| `")]
    assert set(re.findall(r"`(\w+)`", " ".join(cells))) == set(names_in(figures))


def test_changes_are_numbers_however_wide_with_the_words_of_the_table() -> None:
    now = finished(values=[1.0, 1.1, 1.2])
    past = [past_run(finished(f"past-{n}", values=[value] * 3)) for n, value in enumerate((1.0, 2.5))]
    verdicts = judge(now, past)
    (point,) = run_figures(now, verdicts)["points"]
    (series,) = point["series"]
    assert series["change"] < 0 < series["change_high"] and series["change_high"] > 9
    assert (series["median"], series["baseline_median"], series["previous_median"]) == (1.1, 1.75, 1.0)
    (row,) = table_rows(now, verdicts)
    assert row["save (blocking)"].endswith(f"{series['change_words']}\n{series['interval_words']}")


def test_what_failed_has_a_cause_and_no_numbers() -> None:
    results = finished(status="failed")
    (point,) = run_figures(results, judge(results, []))["points"]
    assert (point["status"], point["verdict"], point["cause"]) == ("failed", "FAILED", "boom")
    assert (point["operations"], point["series"], point["peak_memory_over_start_bytes"]) == ([], [], None)


def test_what_json_cannot_say_is_null() -> None:
    results = finished()
    memory = measured([math.inf] * 3, "peak_rss_over_start_bytes", "bytes")
    results = dataclasses.replace(results, measurements=[*results.measurements, memory])
    (point,) = run_figures(results, judge(results, []))["points"]
    assert point["peak_memory_over_start_bytes"] is None
    json.dumps(point, allow_nan=False)
