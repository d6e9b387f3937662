"""Baselines of Orbax's own runner become rows. tests/cases/orbax/baseline.json was written by Orbax 0.12.8."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from runtime.contract.errors import BadInput
from tasks.history.dataset.orbax import rows_of_baseline

CASE = (Path(__file__).parents[3] / "cases" / "orbax" / "baseline.json").read_bytes()


def changed(**fields: Any) -> bytes:
    return json.dumps(json.loads(CASE) | fields).encode()


def test_each_metric_becomes_a_row_in_our_units() -> None:
    rows = rows_of_baseline(CASE, "/x/unknown.json")
    found = {(one["operation"], one["metric"]): (one["unit"], one["values"]) for one in rows}
    assert found["restore", "time_s"] == ("s", [0.03165375066600973])
    assert found["save", "time_s"] == ("s", [0.025164125331987936])
    assert found["restore", "orbax/0_basics/host_rss_diff_bytes"] == ("bytes", [0.203125 * 2**20])
    speed = found["restore", "orbax/4_throughput/load_total_bytes_per_s"]
    assert speed == ("bytes/s", [0.00012284517473536738 * 2**30])
    assert ("restore", "orbax/3_load_breakdown/worker_io_s") in found
    assert not any("9_other" in metric or "6_tensorstore" in metric for _, metric in found)


def test_what_ran_where_is_kept_as_far_as_it_is_told() -> None:
    one = rows_of_baseline(CASE, "/x/unknown.json")[0]
    assert (one["benchmark"], one["run_id"]) == ("PyTreeCheckpointBenchmark", "orbax-unknown-20261129-124616")
    machine = json.loads(one["fingerprint"])
    assert (machine["platform"], machine["workers"], machine["devices"]) == ("cpu", "1", "2")
    assert machine["storage"] == machine["host"] == "unknown"
    assert json.loads(one["versions"]) == {"jax": "0.10.2", "orbax-checkpoint": "0.12.8"}
    assert one["origin"] == "/x/unknown.json" and one["began_at"] == pytest.approx(1795956376.33, abs=0.1)


def series(content: bytes) -> Mapping[str, object]:
    return {one["series"]: one["values"] for one in rows_of_baseline(content, "x")}


def test_a_later_baseline_of_the_same_adds_to_the_same_series() -> None:
    # Orbax puts a hash of Python's repr into the name, which changes from version to version.
    later = changed(
        benchmark_name="PyTreeCheckpointBenchmark_000000000000", captured_at="2026-12-01T00:00:00"
    )
    assert series(later).keys() == series(CASE).keys()
    other = changed(config={"use_ocdbt": False})
    assert not series(other).keys() & series(CASE).keys()


def test_of_several_hosts_the_slowest_counts_and_a_mean_alone_is_taken() -> None:
    stats = {"a::0_basics/time_s": {"max": 3, "mean": 2}, "b::0_basics/time_s": {"mean": float("nan")}}
    found = {one["operation"]: one["values"] for one in rows_of_baseline(changed(metrics=stats), "x")}
    assert found["a"] == [3.0] and str(found["b"]) == "[nan]"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"{", "it is not JSON"),
        (b"[]", "it has no schema_version, benchmark_name and metrics"),
        (changed(schema_version=2), "its schema_version is 2, known is 1"),
        (changed(captured_at="yesterday"), "ValueError"),
        (changed(metrics={"a::0_basics/time_s": {}}), "KeyError: 'mean'"),
        (changed(metrics={"a::0_basics/time_s": 3}), "TypeError"),
        (changed(metrics=[]), "AttributeError"),
        (changed(manifest=[1]), "AttributeError"),
    ],
)
def test_what_is_no_baseline_is_refused(content: bytes, why: str) -> None:
    with pytest.raises(BadInput, match=f"x: this is no baseline of Orbax's, .*{why}"):
        rows_of_baseline(content, "x")
