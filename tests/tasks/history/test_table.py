"""The table fits any terminal, says the verdict, and lets nobody write over the screen."""

from __future__ import annotations

import dataclasses
import os
import re
import sys
import termios
from collections.abc import Sequence

import numpy as np
import pytest

from runtime.contract.generator import ORBAX_PREFIX as ORBAX
from runtime.contract.results import PointStatus
from tasks.history.columns import COLUMNS, columns_of, table_rows
from tasks.history.comparison import judge, past_run
from tasks.history.results import Results, Trouble
from tasks.history.table import print_table, render_table
from tests.tasks.history.test_comparison import finished, measured


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


def compared(options: Sequence[dict[str, object]]) -> tuple[Results, Results]:
    """A run of as many points as there are options, and an earlier one that was quicker."""
    runs = []
    for name, values in (("before", [1.0, 1.1, 1.2]), ("now", [2.0, 2.2, 2.4])):
        one = finished(name, values, started_at=float(len(name)))
        points = [
            dataclasses.replace(one.points[0], point=n, options=given) for n, given in enumerate(options)
        ]
        found = [measured(values, point=n) for n in range(len(points))]
        runs.append(dataclasses.replace(one, points=points, measurements=found))
    return runs[0], runs[1]


OPTIONS = [{"use_ocdbt": ocdbt, "enable_replica_parallel": True} for ocdbt in (True, False)]


@pytest.mark.parametrize("width", [40, 70, 90, 95, 100, 105, 110, 120, 200, None])
def test_no_word_is_broken_that_fits_on_a_line(width: int | None) -> None:
    before, now = compared(OPTIONS)
    text = render_table(now, judge(now, [past_run(before)]), width=width)
    for word in ("use_ocdbt=true", "use_ocdbt=false", "INCONCLUSIVE", "2.00–2.40", "+100"):
        assert word in text.split(), text


def test_piped_text_is_as_wide_as_it_takes(capsys: pytest.CaptureFixture[str]) -> None:
    cause = "the cause is told in one line, " * 20 + "boom"
    results = finished(status="failed")
    results = dataclasses.replace(results, points=[dataclasses.replace(results.points[0], cause=cause)])
    print_table(results, judge(results, []))
    assert cause in capsys.readouterr().err
    before, now = compared([{"option_" + "x" * 150: on} for on in (True, False)])
    print_table(now, judge(now, [past_run(before)]))
    lines = capsys.readouterr().err.splitlines()
    assert re.match(r"benchmark +\(blocking\) +\(background\) +restore", lines[1]), "a table, not lists"
    assert "x" * 150 + "=true" in lines[3].split()[0]


def test_a_terminal_is_fitted_wherever_stdout_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    before, now = compared(OPTIONS)
    master, slave = os.openpty()
    termios.tcsetwinsize(slave, (24, 70))
    with os.fdopen(slave, "w") as terminal, monkeypatch.context() as patched:
        patched.setattr(sys, "stderr", terminal)
        print_table(now, judge(now, [past_run(before)]))
        terminal.flush()
        shown = os.read(master, 2**16).decode()
    os.close(master)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", shown).splitlines()
    assert 40 < max(len(line) for line in lines) <= 70
    assert "  save (blocking): 2.20 s" in shown, "a list"


def own(names: Sequence[str], implementation: str = "user") -> Results:
    """A run of a class that timed operations under names of its own."""
    whole = finished()
    points = [dataclasses.replace(whole.points[0], implementation=implementation)]
    found = [dataclasses.replace(measured([n + 1.0] * 6), operation=name) for n, name in enumerate(names)]
    return dataclasses.replace(whole, points=points, measurements=found)


def test_operations_of_a_users_class_have_columns() -> None:
    results = own(["to_numpy", "hash"])
    (row,) = table_rows(results, judge(results, []))
    assert tuple(row) == columns_of(results) == ("benchmark", "to_numpy", "hash", "peak memory", "verdict")
    assert (row["to_numpy"].split("\n")[0], row["hash"].split("\n")[0]) == ("1.00 s", "2.00 s")
    for width in (60, None):
        shown = render_table(results, judge(results, []), width=width)
        assert "to_numpy" in shown and "2.00 s" in shown


def test_what_a_users_class_calls_by_known_names_stands_where_it_does_for_all() -> None:
    results = own(["save", "to_numpy", "recovery"])
    assert columns_of(results) == (
        "benchmark", "save (blocking)", "recovery", "to_numpy", "save speed (until safe)", "peak memory", "verdict",
    )  # fmt: skip


def test_an_operation_cannot_take_the_place_of_another_column() -> None:
    results = own(["verdict", "[/red]"])
    (row,) = table_rows(results, judge(results, []))
    assert row["verdict"] == "NO_BASELINE" and row["verdict (operation)"].startswith("1.00 s")
    assert "[/red]" in render_table(results, judge(results, []))


def test_what_our_benchmarks_do_besides_has_no_column() -> None:
    assert columns_of(own(["save", "metadata_validation"], "native")) == COLUMNS


@pytest.mark.parametrize(
    ("generator", "operations", "columns"),
    [
        (
            "runtime.benchmarks.first_save.FirstSave",
            ["first_save", "save"],
            ["save (blocking)", "first_save"],
        ),
        (f"{ORBAX}deleter_benchmark.DeleterBenchmark", ["delete"], ["delete"]),
        (
            f"{ORBAX}multihost_dispatchers_benchmark.MultihostDispatchersBenchmark",
            ["dispatch_x"],
            ["dispatch_x"],
        ),
    ],
)
def test_what_people_know_a_benchmark_of_ours_by_has_a_column(
    generator: str, operations: list[str], columns: list[str]
) -> None:
    found = own(operations, "native")
    results = dataclasses.replace(
        found, points=[dataclasses.replace(one, generator=generator) for one in found.points]
    )
    assert [name for name in columns_of(results) if name in (*columns, *operations)] == columns


def test_what_a_benchmark_found_out_stands_below() -> None:
    late = dataclasses.replace(
        measured([0.9, 1.0, 9.0], "held_up_s"),
        operation="save_with_slow_worker",
        workers=np.asarray([0, 1]),
        values=np.asarray([[0.9, np.nan], [1.0, np.nan], [9.0, np.nan]]),
    )
    whole = finished()
    results = dataclasses.replace(whole, measurements=[*whole.measurements, late])
    assert "held_up_s of save_with_slow_worker: 1.00 s (what a late worker costs" in shown(results, 200)
    failed = dataclasses.replace(finished(status="failed"), measurements=results.measurements)
    assert "held_up_s" not in shown(failed, 200)


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
    assert text.splitlines()[-1] == "verdict: FAILED (the benchmark failed)"


def test_what_failed_reads_failed_and_what_never_ran_not_run() -> None:
    failed, never = finished(status="failed"), finished(status="not_run")
    (row,) = table_rows(failed, judge(failed, []))
    assert row["verdict"] == "FAILED"
    assert "FAILED" in shown(failed)
    (row,) = table_rows(never, judge(never, []))
    assert row["verdict"] == "NOT_RUN"
    both = dataclasses.replace(failed, points=[*failed.points, *never.points])
    told = [judge(one, []).of_run(one) for one in (failed, never, both, finished())]
    assert told == ["FAILED", "NOT_RUN", "NOT_RUN", "NO_BASELINE"], "as the exit codes 1, 3, 3 and 0"


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


def test_an_interval_without_bounds_is_told_as_such_and_explained() -> None:
    now = finished(values=[1.0, 1.1, 1.2])
    past = [past_run(finished(f"past-{n}", values=[value] * 3)) for n, value in enumerate((1.0, 2.5))]
    verdicts = judge(now, past)
    (row,) = table_rows(now, verdicts)
    assert row["save (blocking)"].split("\n")[2:] == ["−37 %", "unbounded"]
    assert "unbounded: it reaches beyond 10 times to either side" in render_table(now, verdicts)
    steady = judge(now, past[:1])
    assert "unbounded" not in render_table(now, steady)
