"""Series of the history: which nights count, which do not and why, and what a run that gave nothing leaves."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from tasks.cloud.storage import open_folder
from tasks.history.dataset.medians import runs_of
from tasks.history.dataset.store import Dataset
from tasks.history.detection.series import run_of
from tests.tasks.history.dataset.making import BEGAN, DAY, NOW, note, records, row, the_series


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    return Dataset(open_folder(str(tmp_path)))


def told(dataset: Dataset, *notes: object) -> list[tuple[str, list[float]]]:
    """Returns the nights that count: each night's day and the medians of its runs."""
    found = the_series(dataset, *notes)  # type: ignore[arg-type]
    return [
        (night.name[8:10], [round(math.exp(run.centre), 6) for run in night.runs]) for night in found.nights
    ]


def test_runs_are_nights_in_the_order_in_which_they_began(dataset: Dataset) -> None:
    for n in (2, 0, 1):
        dataset.append([row(n, [1.0 + n, 2.0 + n, 3.0 + n])])
    assert told(dataset) == [("01", [2.0]), ("02", [3.0]), ("03", [4.0])]
    assert the_series(dataset).name == "Quickstart / tiny / save / time_s"


def test_a_run_of_some_benchmarks_alone_leaves_a_series_its_name(dataset: Dataset) -> None:
    dataset.append([row(0, label="x=1, tiny")])
    dataset.append([row(1, label="")])
    assert the_series(dataset).name == "Quickstart / x=1, tiny / save / time_s"


def test_nulls_among_the_values_are_none(dataset: Dataset) -> None:
    dataset.append([row(0, [5.0])])
    dataset.append([row(1, [None, 4.0, None])])  # type: ignore[list-item]
    assert told(dataset) == [("01", [5.0]), ("02", [4.0])]


def test_runs_of_a_night_that_has_a_name_are_its_run_and_its_reruns(dataset: Dataset) -> None:
    dataset.append([row(0, [5.0], night="2026-11-01")])
    dataset.append([row(1, [4.0], night="2026-11-01")])
    dataset.append([row(2, [3.0])])
    assert told(dataset) == [("01", [5.0, 4.0]), ("03", [3.0])]


@pytest.mark.parametrize(
    ("values", "median"),
    [
        ([2.0], 2.0),
        ([3.0, 3.0, 3.0], 3.0),
        ([0.0, 4.0, float("nan"), float("inf"), -1.0], 4.0),
        ([0.0, 0.0], None),
        ([float("nan")], None),
        ([], None),
    ],
)
def test_values_that_are_no_positive_number_do_not_count(
    dataset: Dataset, values: list[float], median: float | None
) -> None:
    dataset.append([row(0, [1.0])])
    dataset.append([row(1, values)])
    assert told(dataset)[1:] == ([] if median is None else [("02", [median])])
    seen = records(dataset).seen(the_series(dataset).id)
    assert len(seen) == 2 and len(seen[1].values) == len(values)


def test_little_memory_counts_as_a_mebibyte(dataset: Dataset) -> None:
    dataset.append([row(0, [0.0, 5.0, 2.0**22], unit="bytes", metric="peak_rss_over_start_bytes")])
    assert told(dataset) == [("01", [2.0**20])]


def test_all_rows_at_once_give_what_each_gives_alone() -> None:
    random = np.random.default_rng(3)
    rows = [random.normal(3, 1.5, size) for size in random.integers(0, 7, 200)]
    rows[5][:] = 2.0
    lengths = np.asarray([len(values) for values in rows])
    begins = np.cumsum([0, *lengths[:-1]])
    least = np.where(np.arange(200) % 3 == 0, 2.5, 0.0)
    found = runs_of(np.concatenate(rows), begins, lengths, least)
    for one, values, floor in zip(found, rows, least, strict=True):
        alone = run_of(values, floor)
        assert (one is None) == (alone is None)
        if one and alone:
            assert one.centre == pytest.approx(alone.centre)
            assert one.spread == (alone.spread and pytest.approx(alone.spread))


def test_a_unit_that_changed_sets_the_earlier_values_aside(dataset: Dataset) -> None:
    dataset.append([row(0, [1000.0], unit="ms")])
    dataset.append([row(1, [1.0])])
    assert told(dataset) == [("02", [1.0])]
    assert the_series(dataset).set_aside == 1
    assert records(dataset).seen(the_series(dataset).id)[0].aside == "it is in ms, the latest in s"


@pytest.mark.parametrize(
    ("times", "why"),
    [
        ({"began_at": 12.0, "collected_at": 60.0}, "it began 1970-01-01T00:00:12Z"),
        (
            {"began_at": NOW + 40 * DAY, "collected_at": NOW + 41 * DAY},
            "it began 2027-02-09T02:00:00Z, which is still to come",
        ),
        (
            {"collected_at": BEGAN - 3 * DAY},
            "it was collected 2026-10-29T02:00:00Z, before it began 2026-11-02T02:00:00Z",
        ),
        ({"began_at": float("nan"), "collected_at": float("nan")}, "it began nan"),
        ({"began_at": 1e30, "collected_at": 1e30}, "it began 1e+30, which is still to come"),
        ({"began_at": -1e30, "collected_at": -1e30}, "it began -1e+30"),
    ],
)
def test_a_clock_that_was_wrong_sets_the_run_aside(
    dataset: Dataset, times: dict[str, float], why: str
) -> None:
    dataset.append([row(0, [1.0])])
    dataset.append([row(1, [7.0], **times)])
    assert told(dataset) == [("01", [1.0])]
    asides = [one.aside for one in records(dataset).seen(the_series(dataset).id) if one.aside]
    assert asides == [f"its clock was wrong: {why}"]


def test_a_night_is_excluded_and_included_by_its_name_or_a_runs_id(dataset: Dataset) -> None:
    for n in range(3):
        dataset.append([row(n, [1.0 + n], night=f"2026-11-0{n + 1}")])
    series = the_series(dataset).id
    by_night = note("exclude", "2026-11-02", text="disk was full", at=1.0)
    assert [night for night, _ in told(dataset, by_night)] == ["01", "03"]
    assert [night for night, _ in told(dataset, note("exclude", "run-1", series=series))] == ["01", "03"]
    assert len(told(dataset, note("exclude", "run-1", series="another"))) == 3
    assert len(told(dataset, by_night, note("include", "run-1", at=2.0))) == 3
    assert len(told(dataset, note("annotate", "run-1"))) == 3
    seen = records(dataset, by_night).seen(series)
    assert [one.aside for one in seen] == ["", "excluded by me: disk was full", ""]


def test_what_gave_no_value_is_a_hole_with_its_cause(dataset: Dataset) -> None:
    dataset.append([row(0)])
    dataset.append([row(1, [], status="failed", cause="wrong data", operation="", metric="")])
    whole_run = {"benchmark": "", "benchmark_key": "", "operation": "", "metric": "", "status": "not_run"}
    dataset.append([row(2, [], **whole_run, cause="no quota")])
    dataset.append([row(3, [], **whole_run, cause="other suite", suite="Other")])
    dataset.append([row(4, [], status="failed", cause="other track", track="pr 1")])
    holes = records(dataset).holes(the_series(dataset))
    assert [(hole.run_id, hole.status, hole.cause) for hole in holes] == [
        ("run-1", "failed", "wrong data"),
        ("run-2", "not_run", "no quota"),
    ]


def test_a_rerun_that_gave_a_value_fills_the_hole_of_its_night(dataset: Dataset) -> None:
    dataset.append([row(0, [], status="failed", night="2026-11-01")])
    dataset.append([row(1, [2.0], night="2026-11-01")])
    assert records(dataset).holes(the_series(dataset)) == []


def test_another_track_is_another_series(dataset: Dataset) -> None:
    dataset.append([row(0)])
    dataset.append([row(1, track="pr 12")])
    assert len(records(dataset).series) == 2


def test_there_may_be_no_history_yet(dataset: Dataset) -> None:
    assert records(dataset).series == {}
    assert records(dataset).seen("0123") == []
