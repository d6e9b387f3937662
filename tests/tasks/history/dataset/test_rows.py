"""What a run adds to the history."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from tasks.history.dataset.rows import Belonging, rows_of, series_id
from tasks.history.fingerprint import FIELDS
from tasks.history.results import AttemptEnd, Results
from tasks.stages.collect import collect
from tests.tasks.history.making import make_point, make_result, make_run, make_samples, write_parts


@pytest.fixture
def results(tmp_path: Path) -> Results:
    points = [make_point(0), make_point(1, "other")]
    run = make_run(tmp_path, points=points, workers=2)
    samples = make_samples([[9.0, 1.0, 2.0], [8.0, 1.5, 1.8]], warmups=1)
    samples += make_samples([[10.0, 11.0], [12.0, 13.0]], metric="peak_rss_over_start_bytes", unit="bytes")
    samples += make_samples([[5.0], [5.0]], metric="cpu_s")
    write_parts(
        run.folder,
        samples,
        [
            make_result(0),
            make_result(1),
            make_result(0, point=1, benchmark="other", status="failed", cause="wrong"),
        ],
    )
    return collect(run)


def test_of_some_benchmarks_alone_none_has_a_name_of_its_own(results: Results) -> None:
    rows = rows_of(results, Belonging("released", partial=True))
    assert {one["label"] for one in rows} == {""}
    assert [one["series"] for one in rows[:2]] == [
        one["series"] for one in rows_of(results, Belonging("released"))[:2]
    ]


def test_each_headline_metric_of_what_passed_is_a_row_and_each_point_that_did_not(results: Results) -> None:
    rows = rows_of(results, Belonging("released", "2026-11-01", "/runs/run-1"))
    told = [(one["benchmark"], one.get("operation"), one.get("metric"), one.get("values")) for one in rows]
    assert told == [
        ("tiny", "save", "time_s", [1.5, 2.0]),
        ("tiny", "save", "peak_rss_over_start_bytes", [12.0, 13.0]),
        ("other", None, None, None),
    ]
    assert (rows[2]["status"], "wrong" in rows[2]["cause"]) == ("failed", True)
    assert {(one["night"], one["run_id"], one["origin"]) for one in rows} == {
        ("2026-11-01", "run-1", "/runs/run-1")
    }
    assert json.loads(rows[0]["versions"])["jax"] == "0.10.2"
    assert json.loads(rows[0]["definition"])["options"] == {"async_enabled": True}


def test_a_preempted_attempt_gives_no_values(results: Results) -> None:
    preempted = dataclasses.replace(results, attempts=[AttemptEnd(1, "preempted")])
    rows = rows_of(preempted, Belonging("released"))
    assert [one["status"] for one in rows] == ["preempted", "failed"]
    assert not any("values" in one for one in rows)


def test_a_series_is_what_is_comparable_whatever_else_a_fingerprint_says() -> None:
    machine = dict.fromkeys(FIELDS, "x")
    one = series_id("key", "save", "time_s", machine, "released")
    assert one == series_id("key", "save", "time_s", machine | {"colour": "red"}, "released")
    others = {
        series_id("key", "save", "time_s", machine | {"workers": "3"}, "released"),
        series_id("key", "save", "time_s", machine, "pr 1"),
        series_id("key", "restore", "time_s", machine, "released"),
    }
    assert one not in others and len(others) == 3
