"""What table and report say of disruptions: recovery beside the other figures, and the parts that it is made of."""

from __future__ import annotations

import dataclasses
import html
from collections.abc import Sequence
from typing import Any

import pytest

from tasks.history.columns import COLUMNS, columns_of, table_rows
from tasks.history.comparison import judge
from tasks.history.labels import labels
from tasks.history.report.page import Surroundings, render_report
from tasks.history.report.recovery import HEADINGS, recovery_rows
from tasks.history.results import Results
from tasks.history.summary import summarize_passed
from tasks.history.table import render_table
from tests.tasks.history.test_comparison import finished, measured

ASKED = {"worker": 1, "at_step": 2, "moment": "saved", "after_s": None, "signal": "SIGKILL"}
PARTS = {"detection_s": 0.5, "start_s": 4.0, "setup_s": 0.25, "restore_s": 0.2, "first_step_s": 0.05}


def recovered(asked: dict[str, Any] | None = ASKED, lost: Sequence[float] = (0.0, 1.0, 1.0)) -> Results:
    """A point that was disrupted in three repeats, and recovered in 5 s."""
    whole = finished()
    values = {"time_s": [4.9, 5.0, 5.1], **{name: [part] * 3 for name, part in PARTS.items()}}
    steps = {"resumed_from_step": [2.0, 2.0, 2.0], "lost_steps": list(lost)}
    found = [
        *(measured(of, metric=name, unit="s") for name, of in values.items()),
        *(measured(of, metric=name, unit="1") for name, of in steps.items()),
    ]
    recovery = [dataclasses.replace(one, operation="recovery") for one in found]
    points = [dataclasses.replace(whole.points[0], disruption=asked)]
    return dataclasses.replace(whole, points=points, measurements=[*whole.measurements, *recovery])


def test_recovery_is_a_column_where_something_was_disrupted_only() -> None:
    results = recovered()
    assert columns_of(finished()) == COLUMNS
    assert set(columns_of(results)) == {*COLUMNS, "recovery"}
    (row,) = table_rows(results, judge(results, []))
    assert tuple(row) == columns_of(results)
    assert row["recovery"] == "5.00 s\n4.90–5.10 s"
    for width in (60, 120, 160):
        shown = render_table(results, judge(results, []), width=width)
        assert "recovery" in shown and "5.00 s" in shown
        assert max(len(line) for line in shown.splitlines()) <= width


def test_the_report_says_what_recovery_is_made_of() -> None:
    results = recovered()
    (row,) = recovery_rows(results, summarize_passed(results))
    assert len(row) == len(HEADINGS)
    assert row[0] == (labels(results.points)[0], "SIGKILL to worker 1 once step 2 is saved")
    assert [cell[0] for cell in row[1:]] == [
        "5.00 s", "500 ms", "–", "4.00 s", "250 ms", "200 ms", "50.0 ms", "2", "0 … 1",
    ]  # fmt: skip
    page = html.unescape(render_report(results, judge(results, []), Surroundings()))
    for told in ("Recovery after a disruption", "disrupted: SIGKILL to worker 1", *HEADINGS[1:]):
        assert told in page
    assert "Recovery after a disruption" not in render_report(
        finished(), judge(finished(), []), Surroundings()
    )


def test_one_whose_hardware_was_taken_away_says_so_and_how_long_it_waited() -> None:
    results = recovered(asked=None)
    queued = dataclasses.replace(measured([3.0], metric="queue_s", unit="s"), operation="recovery")
    results = dataclasses.replace(results, measurements=[*results.measurements, queued])
    (row,) = recovery_rows(results, summarize_passed(results))
    assert row[0][1] == "its hardware was taken away"
    assert row[3][0] == "3.00 s"


@pytest.mark.parametrize("asked", [{"worker": 1, "at_step": 2, "moon": "full"}, {"other": 1}])
def test_what_a_newer_version_asked_for_does_not_hide_the_figures(asked: dict[str, Any]) -> None:
    (row,) = recovery_rows(recovered(asked), summarize_passed(recovered(asked)))
    assert row[0][1] == ""
    assert row[1][0] == "5.00 s"


def test_disrupted_points_are_told_apart_by_when() -> None:
    one = recovered().points[0]
    quiet = dataclasses.replace(one, point=1, disruption=None)
    later = dataclasses.replace(one, point=2, disruption={**ASKED, "at_step": None, "after_s": 1.5})
    assert labels([one, quiet, later]) == {0: "killed at step 2", 1: "undisturbed", 2: "killed after 1.5 s"}
