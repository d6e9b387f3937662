"""The table fits any terminal, says the verdict, and lets nobody write over the screen."""

from __future__ import annotations

import dataclasses

import pytest

from runtime.contract.results import PointStatus
from tasks.history.comparison import judge, past_run
from tasks.history.results import Results, Trouble
from tasks.history.table import COLUMNS, render_table, table_rows
from tests.tasks.history.test_comparison import finished


def shown(results: Results, width: int = 120, *, colour: bool = False) -> str:
    return render_table(results, judge(results, []), width=width, colour=colour)


def test_a_row_says_what_a_person_wants_first() -> None:
    (row,) = table_rows(finished(), judge(finished(), []))
    assert tuple(row) == COLUMNS
    assert row["save (blocking)"] == "1.00 s\n990 ms – 1.01 s"
    assert (row["restore"], row["verdict"]) == ("–", "NO_BASELINE")


def test_the_confidence_of_few_repeats_is_not_hidden() -> None:
    assert "with 75 % only" in shown(finished())
    assert "at least 95 %" in shown(finished(values=[1.0] * 6))


@pytest.mark.parametrize("width", [20, 40, 80, 92, 120, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    results = dataclasses.replace(finished(status="failed"))
    assert max(len(line) for line in shown(results, width).splitlines()) <= width


def test_plain_without_a_terminal_and_coloured_on_one() -> None:
    assert "\x1b[" not in shown(finished())
    assert "\x1b[" in shown(finished(status="failed"), colour=True)


def test_failures_and_missing_results_are_told_below() -> None:
    results = dataclasses.replace(
        finished(status="failed"), troubles=[Trouble("missing", "worker 1 delivered no results\x1b[2J")]
    )
    text = shown(results)
    assert "failed: boom" in text
    assert "worker 1 delivered no results\N{REPLACEMENT CHARACTER}[2J" in text
    assert text.splitlines()[-1] == "verdict: NOT_RUN (the benchmark failed)"


def test_what_failed_reads_failed_and_what_never_ran_not_run() -> None:
    failed, never = finished(status="failed"), finished(status="not_run")
    (row,) = table_rows(failed, judge(failed, []))
    assert row["verdict"] == "FAILED"
    assert "FAILED" in shown(failed)
    (row,) = table_rows(never, judge(never, []))
    assert row["verdict"] == "NOT_RUN"


def test_what_failed_shows_no_figures_beside_those_of_what_passed() -> None:
    failed = finished(status="failed", values=[1.0] * 6)
    (row,) = table_rows(failed, judge(failed, []))
    assert [row[name] for name in COLUMNS[1:-1]] == ["–"] * 5
    assert "true median" not in shown(failed), "no interval is shown"


def test_the_runs_line_counts_what_failed_and_what_never_ran() -> None:
    def reason(*statuses: PointStatus) -> str:
        one = finished().points[0]
        points = [dataclasses.replace(one, point=n, status=status) for n, status in enumerate(statuses)]
        results = dataclasses.replace(finished(), points=points)
        return judge(results, []).reason

    assert reason("failed", "passed") == "1 of 2 benchmarks failed"
    assert reason("failed", "passed", "not_run") == "1 of 3 benchmarks failed, 1 is incomplete"
    assert reason("not_run", "not_run") == "2 of 2 benchmarks are incomplete"
    assert reason("not_run") == "the benchmark is incomplete", "an attempt ran it"


def test_markup_in_names_stays_text() -> None:
    results = finished()
    points = [dataclasses.replace(results.points[0], generator="[red]x[/red]")]
    assert "[red]x[/red]" in shown(dataclasses.replace(results, points=points))


def test_the_change_against_an_earlier_run_stands_below_with_its_interval() -> None:
    before, now = finished(values=[1.0, 1.1, 1.2]), finished(values=[2.0, 2.2, 2.4])
    verdicts = judge(now, [past_run(before)])
    (row,) = table_rows(now, verdicts)
    median, interval, change, reach = row["save (blocking)"].split("\n")
    assert (median, interval, change) == ("2.20 s", "2.00–2.40 s", "+100 %")
    assert reach.startswith("+") and " … +" in reach
    assert "the change against earlier runs" in " ".join(render_table(now, verdicts, width=120).split())
