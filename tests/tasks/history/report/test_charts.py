"""Charts give every word the room that it takes: a drawing cuts off what does not fit."""

from __future__ import annotations

import dataclasses
import html
from collections.abc import Sequence

import numpy as np
import pytest

from tasks.history.comparison import judge, past_run
from tasks.history.report.chart import BOLD, LETTER, WIDTH, Chart, shortened
from tasks.history.report.charts import effects_chart, memory_chart, stragglers_chart
from tasks.history.report.page import Surroundings, render_report
from tasks.history.results import Results
from tasks.history.summary import summarize_passed
from tests.tasks.history.test_comparison import finished, measured

LONG = "restore_after_a_restart_of_all_the_workers_of_a_slice"


def run(values: Sequence[float], run_id: str = "now", operation: str = "save", label: str = "x") -> Results:
    """A run of two points of a user's class, told apart by `label`."""
    whole = finished(run_id, values)
    points = [
        dataclasses.replace(whole.points[0], point=n, implementation="user", options={label: n})
        for n in range(2)
    ]
    found = [
        dataclasses.replace(measured(of, metric, unit, point=n), operation=operation)
        for n in range(2)
        for of, metric, unit in (
            (values, "time_s", "s"),
            ([value * 2**20 for value in values], "peak_rss_over_start_bytes", "bytes"),
        )
    ]
    return dataclasses.replace(whole, points=points, measurements=found)


def assert_fits(chart: Chart | None) -> None:
    assert chart is not None
    assert chart.axis.right - chart.axis.left > 150, "something is left to draw in"
    for row in chart.rows:
        assert row.note_x + LETTER * len(row.note) <= WIDTH
        label = shortened(row.label, chart.letters)
        assert 12 + LETTER * len(label) <= chart.axis.left
    for heading in chart.headings:
        assert BOLD * len(heading.text) <= WIDTH


@pytest.mark.parametrize("operation", ["save", LONG])
@pytest.mark.parametrize("before", [[9.0, 9.5, 9.9], [0.01, 0.01, 0.01], [1.0, 1.2, 1.1]])
def test_nothing_is_drawn_over_an_edge(operation: str, before: Sequence[float]) -> None:
    now = run([1.0, 1.1, 1.2], operation=operation, label="an_option_" * 14)
    verdicts = judge(now, [past_run(run(before, "before", operation))])
    assert_fits(effects_chart(now, verdicts.series))
    assert_fits(memory_chart(now, summarize_passed(now)))


def test_what_a_users_class_does_is_drawn_too() -> None:
    now = run([1.0, 1.1, 1.2], operation="to_numpy")
    chart = memory_chart(now, summarize_passed(now))
    assert chart is not None and [row.label for row in chart.rows] == ["to_numpy"] * 2
    one = now.measurements[0]
    two = dataclasses.replace(one, workers=np.arange(2), values=one.values.repeat(2, axis=1))
    chart = stragglers_chart(dataclasses.replace(now, measurements=[two]))
    assert chart is not None and [row.label for row in chart.rows] == ["to_numpy"]


def test_an_unbounded_interval_is_not_drawn_and_one_that_goes_on_has_an_arrow() -> None:
    now = run([1.0, 1.1, 1.2])
    scattered = [past_run(run([value] * 3, f"past-{n}")) for n, value in enumerate((1.0, 2.5))]
    chart = effects_chart(now, judge(now, scattered).series)
    assert chart is not None and all(row.span is None for row in chart.rows)
    assert all(row.note == "−37 % (unbounded)" for row in chart.rows)
    wide = effects_chart(now, judge(now, [past_run(run([0.7, 1.1, 1.6], "before"))]).series)
    assert wide is not None
    assert [(row.span is not None, row.open_right) for row in wide.rows] == [(True, True)] * len(wide.rows)


def test_what_became_many_times_as_much_lies_at_the_edge() -> None:
    now = run([130.0] * 3)
    chart = effects_chart(now, judge(now, [past_run(run([1.0] * 3, "before"))]).series)
    assert chart is not None
    assert [row.dots[0].edge for row in chart.rows] == [True] * 4
    assert chart.rows[0].note.startswith("× 130")
    assert int(chart.axis.ticks[-1].text) <= 1000


def test_a_label_that_is_too_long_keeps_both_ends_and_is_told_in_full() -> None:
    assert shortened("abcdefghij", 5) == "ab…ij"
    assert shortened("abcde", 5) == "abcde"
    now = run([1.0, 1.1, 1.2], operation=LONG)
    page = html.unescape(render_report(now, judge(now, []), Surroundings()))
    assert f"<title>{LONG}</title>" in page


def test_each_line_of_a_cell_is_a_line_on_the_page() -> None:
    now = run([1.0, 1.1, 1.2])
    page = render_report(now, judge(now, [past_run(run([1.0, 1.2, 1.3], "before"))]), Surroundings())
    assert "<small>1.00–1.20 s\n−8.3 %\n" in page
    assert 'data-heading="save (blocking)"' in page


def test_a_table_of_many_columns_is_drawn_in_blocks() -> None:
    few = finished()
    now = run([1.0, 1.1, 1.2], operation="to_numpy")
    names = [dataclasses.replace(now.measurements[0], operation=f"step_{n}") for n in range(6)]
    many = dataclasses.replace(now, measurements=names)
    for results, expected in ((few, False), (many, True)):
        page = render_report(results, judge(results, []), Surroundings())
        assert ('<table class="many">' in page) is expected
