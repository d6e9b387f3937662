"""Who was slowest: counted by hand in times whose straggler is known."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tasks.history.report.stragglers import operation_rows, run_rows
from tasks.history.results import PointOutcome, PointStatus, Results
from tasks.history.samples import measurements, read_part
from tasks.history.stragglers import hosts_of, lateness, races, straggler_lines
from tests.tasks.history.making import make_samples, parquet

EVEN = [[1.0, 1.1, 1.0, 1.1], [1.1, 1.0, 1.1, 1.0], [1.0, 1.0, 1.0, 1.0]]
"""values[worker][repeat]: nobody is slow."""


def results(
    *, warmups: int = 0, status: PointStatus = "passed", **operations: Sequence[Sequence[float]]
) -> Results:
    samples = [
        sample
        for operation, values in operations.items()
        for sample in make_samples(values, operation=operation, warmups=warmups)
    ]
    outcome = PointOutcome(0, "tiny", "key-tiny", "tiny", "native", status, attempt=1)
    found = measurements(read_part(parquet(samples)), {0: 1})
    limits = [{"worker": 1, "host": "node-b"}, {"worker": 0, "host": ""}]
    return Results("r", "s", "local", 3, [outcome], limits=limits, measurements=found)


def test_each_worker_is_counted() -> None:
    slow = [[1.0, 1.0, 1.0, 3.0], [2.0, 1.5, 2.0, 1.0], [1.0, 1.2, 1.0, 1.0]]
    (race,) = races(results(save=slow))
    told = {one.worker: (one.median_s, one.slowest_in, one.late_s) for one in race.workers}
    assert told == {0: (1.0, 1, 2.0), 1: (1.75, 3, 1.0), 2: (1.0, 0, None)}
    assert [one.worker for one in race.workers] == [1, 0, 2], "the latest first"
    assert race.occurrences == 4
    assert race.straggler is None, "of four repeats three may be chance"


def test_of_two_workers_one_waits_for_the_other() -> None:
    (race,) = races(results(save=[[1.0, 1.0], [2.0, 2.0]]))
    assert [(one.worker, one.slowest_in, one.late_s) for one in race.workers] == [(1, 2, 1.0), (0, 0, None)]


def test_warm_up_and_repeats_that_a_worker_lacks_do_not_count() -> None:
    run = results(warmups=1, save=[[9.0, 1.0, 1.0], [1.0, 2.0], [1.0, 1.0, 9.0]])
    (race,) = races(run)
    assert race.occurrences == 1
    assert {one.worker: one.slowest_in for one in race.workers} == {0: 0, 1: 1, 2: 0}


def test_a_straggler_is_named_with_its_host() -> None:
    run = results(save=[[1.0] * 9, [1.5] * 8 + [0.9], [1.0] * 9], restore=[[1.0] * 9] * 3)
    assert straggler_lines(run, hosts_of(run)) == [
        "tiny: save waits for worker 1 (node-b): slowest in 8 of 9 repeats, by 500 ms"
    ]


@pytest.mark.parametrize(
    "values",
    [
        EVEN,
        [[1.0] * 12, [1.02] * 12, [1.0] * 12],  # always the slowest, and by too little
        [[1.0] * 4, [2.0] * 4, [1.0] * 4],  # by much, and too seldom to tell
        [[1.0] * 12],  # nobody waits
    ],
)
def test_what_may_be_chance_or_does_not_matter_is_no_straggler(values: list[list[float]]) -> None:
    run = results(save=values)
    assert all(race.straggler is None for race in races(run))
    assert straggler_lines(run, {}) == []


def test_over_the_whole_run() -> None:
    run = results(save=[[1.0] * 2, [2.0] * 2, [1.0] * 2], restore=[[4.0] * 2, [1.0] * 2, [1.0] * 2])
    told = [(one.worker, one.slowest_in, one.occurrences, one.late_s) for one in lateness(run)]
    assert told == [(0, 2, 4, 6.0), (1, 2, 4, 2.0), (2, 0, 4, 0.0)]
    assert [[cell[0] for cell in row] for row in run_rows(run)] == [
        ["worker 0", "2 of 4", "6.00 s"],
        ["worker 1 (node-b)", "2 of 4", "2.00 s"],
        ["worker 2", "0 of 4", "–"],
    ]


def test_what_failed_or_is_no_result_is_left_out() -> None:
    slow = [[1.0] * 9, [2.0] * 9, [1.0] * 9]
    assert races(results(status="failed", save=slow)) == lateness(results(status="failed", save=slow)) == []
    assert races(results(metadata_validation=slow)) == []


def test_of_many_workers_the_slowest_are_shown() -> None:
    many = [[1.0 + 0.01 * worker] * 9 for worker in range(20)]
    many[3] = [5.0] * 9
    rows = operation_rows(results(save=many))
    assert [row[1][0] for row in rows] == ["worker 3", *(f"worker {n}" for n in range(19, 12, -1))]
    assert (rows[0][0], rows[0][1][1], rows[0][4][0]) == (("save", "tiny"), "straggler", "9 of 9")
    assert rows[1][0] == ("", "") and rows[-1][1][1] == "and 12 faster workers"
