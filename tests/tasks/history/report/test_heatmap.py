"""Sweeps become maps: each combination in its cell, the fewest cells empty, the longest the darkest."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from typing import Any

import pytest

from tasks.history.report.heatmap import HeatMap, heat_maps
from tasks.history.report.page import Surroundings, render_report
from tasks.history.results import Results
from tasks.history.summary import summarize_passed
from tasks.history.verdict import Verdict, Verdicts
from tests.tasks.history.test_comparison import finished, measured


def swept(options: list[Mapping[str, Any]], times: list[float] | None = None) -> Results:
    """A run of one point per set of options, whose saves took so many seconds."""
    whole = finished("now", [1.0])
    points = [dataclasses.replace(whole.points[0], point=n, options=one) for n, one in enumerate(options)]
    took = times or [1.0 + n for n in range(len(options))]
    found = [measured([one], "time_s", "s", point=n) for n, one in enumerate(took)]
    return dataclasses.replace(whole, points=points, measurements=found)


def maps(options: list[Mapping[str, Any]], times: list[float] | None = None) -> list[HeatMap]:
    results = swept(options, times)
    return heat_maps(results, summarize_passed(results))


def grid(**values: list[Any]) -> list[Mapping[str, Any]]:
    return [dict(zip(values, chosen, strict=True)) for chosen in itertools.product(*values.values())]


def test_each_combination_stands_in_its_cell() -> None:
    (found,) = maps(grid(a=[1, 2], b=["x", "y", "z"]))
    assert (found.down_name, found.across_name) == ("a", "b")
    assert [[cell.point for cell in row] for row in found.rows] == [[0, 1, 2], [3, 4, 5]]
    assert found.rows[1][2].text == "6.00 s"


def test_numbers_stand_in_the_order_of_their_size() -> None:
    (found,) = maps(grid(a=[128, 2, 16], b=[True, False]))
    assert list(found.down) == ["2", "16", "128"]


def test_the_darkest_is_the_longest_by_ratio() -> None:
    (found,) = maps(grid(a=[1, 2], b=[1, 2]), [1.0, 10.0, 100.0, 1.0])
    assert [[cell.shade for cell in row] for row in found.rows] == [[0.0, 0.5], [1.0, 0.0]]


@pytest.mark.parametrize("options", [[{}], grid(a=[1, 2, 3]), [{"a": 1, "b": 1}, {"a": 2, "b": 2}]])
def test_what_varies_in_one_thing_or_together_makes_no_map(options: list[Mapping[str, Any]]) -> None:
    assert maps(options) == []


def test_of_three_the_two_make_the_map_that_leave_the_fewest_cells_empty() -> None:
    whole = grid(a=[True, False], b=[True, False], c=[False])
    found = maps([*whole, {"a": True, "b": True, "c": True}])
    assert [(one.down_name, one.across_name, one.title) for one in found] == [
        ("a", "b", "G: save (blocking), c=false")
    ]


def test_there_is_a_map_for_each_value_of_the_third() -> None:
    found = maps(grid(a=[1, 2, 3], b=[1, 2, 3], c=[8, 9]))
    assert [one.title.rpartition(" ")[2] for one in found] == ["c=8", "c=9"]
    assert [cell.point for cell in found[1].rows[0]] == [1, 3, 5]


def test_what_did_not_pass_says_why() -> None:
    results = swept(grid(a=[1, 2], b=[1, 2]))
    failed = dataclasses.replace(results.points[3], status="failed", cause="no room")
    results = dataclasses.replace(results, points=[*results.points[:3], failed])
    (found,) = heat_maps(results, summarize_passed(results))
    assert (found.rows[1][1].text, found.rows[1][1].title, found.rows[1][1].shade) == ("–", "no room", None)


def test_the_report_shows_them_and_takes_no_value_for_markup() -> None:
    results = swept(grid(a=["<b>1</b>", "2"], b=[1, 2]))
    page = render_report(results, Verdicts("now", Verdict.NO_BASELINE, "none"), Surroundings())
    assert "<h3>Sweeps</h3>" in page and "<b>1" not in page and "--shade:1.0" in page
