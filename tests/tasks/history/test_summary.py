"""Summaries of literal samples: the slowest worker counts, warm-up does not, nothing is dropped in silence."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from runtime.contract.results import Sample
from runtime.contract.roles import Role, role_of
from tasks.history.measurement import Measurement
from tasks.history.samples import join_parts, measurements, read_part
from tasks.history.summary import OperationSummary, combine_of, summarize
from tests.tasks.history.making import MIB, make_samples, parquet


def measured(samples: Iterable[Sample]) -> list[Measurement]:
    table, _ = join_parts([read_part(parquet(samples))])
    return measurements(table, {0: 1})


def summary(*samples: list[Sample]) -> OperationSummary:
    (found,) = summarize(measured([one for group in samples for one in group]))
    return found


def test_the_slowest_worker_of_each_repeat_counts() -> None:
    time = summary(make_samples([[9.0, 1.0, 2.0, 3.0], [1.0, 1.5, 1.0, 2.0]], warmups=1)).time
    assert (time.n, time.warmups) == (3, 1)
    assert (time.smallest, time.median, time.largest) == (1.5, 2.0, 3.0)
    assert time.interval is not None
    assert (time.interval.low, time.interval.high, time.interval.confidence) == (1.5, 3.0, 0.75)


def test_a_repeat_that_lacks_a_worker_does_not_count() -> None:
    time = summary(make_samples([[1.0, 1.0, 1.0], [2.0, 2.0]])).time
    assert (time.n, time.median) == (2, 2.0)


def test_only_warm_ups_are_no_summary() -> None:
    assert summarize(measured(make_samples([[1.0]], warmups=1))) == []


def test_throughput_counts_what_goes_on_in_the_background() -> None:
    found = summary(
        make_samples([[1.0, 1.0]]),
        make_samples([[4 * MIB] * 2], metric="payload_bytes", unit="bytes"),
        make_samples([[MIB] * 2], metric="bytes_per_s", unit="bytes/s"),
    )
    assert found.bytes_per_s == MIB


def test_throughput_is_the_payload_of_all_over_the_slowest() -> None:
    found = summary(
        make_samples([[1.0, 1.0], [2.0, 2.0]]),
        make_samples([[3 * MIB] * 2, [5 * MIB] * 2], metric="payload_bytes", unit="bytes"),
        make_samples([[3 * MIB] * 2, [2.5 * MIB] * 2], metric="bytes_per_s", unit="bytes/s"),
        make_samples([[MIB, 7 * MIB], [MIB, MIB]], metric="peak_rss_over_start_bytes", unit="bytes"),
    )
    assert found.payload_bytes == 8 * MIB
    assert found.bytes_per_s == 4 * MIB
    assert found.memory_bytes == 7 * MIB
    assert found.payload_per_worker == 5 * MIB


def test_the_straggler_is_named() -> None:
    found = summary(make_samples([[1.0, 1.0], [1.1, 1.1], [3.0, 3.0]]))
    assert found.slowest == 2
    assert found.straggle == pytest.approx(3.0 / 1.1)


def test_one_worker_is_no_straggler() -> None:
    found = summary(make_samples([[1.0, 2.0]]))
    assert (found.straggle, found.slowest) == (None, None)


def test_occurrences_within_a_repeat_are_told_apart() -> None:
    import dataclasses

    again = [dataclasses.replace(sample, occurrence=1, value=5.0) for sample in make_samples([[1.0]])]
    assert summary([*make_samples([[1.0]]), *again]).time.n == 2


@pytest.mark.parametrize(
    ("operation", "role"),
    [
        ("save", "save"),
        ("save_12", "save"),
        ("serialize", "save"),
        ("wait_until_finished", "wait"),
        ("wait_until_finished_3", "wait"),
        ("restore", "restore"),
        ("load", "restore"),
        ("correctness_check", "other"),
        ("save_scale_down_state", "other"),
    ],
)
def test_roles_go_by_name(operation: str, role: Role) -> None:
    assert role_of(operation) == role


@pytest.mark.parametrize(
    ("unit", "metric", "how"),
    [
        ("s", "time_s", "max"),
        ("bytes", "written_bytes", "sum"),
        ("bytes", "peak_rss_bytes", "max"),
        ("bytes", "rss_start_bytes", "max"),
        ("count", "read_requests", "sum"),
        ("1", "rss_per_saved_byte", "max"),
    ],
)
def test_workers_values_are_combined_by_what_they_are(unit: str, metric: str, how: str) -> None:
    assert combine_of(unit, metric) == how
