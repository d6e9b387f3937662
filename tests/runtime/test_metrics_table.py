"""Every metric that is ever recorded is in the table, with the unit the table says."""

from __future__ import annotations

from pathlib import Path

import jax.numpy as jnp
import orbax.checkpoint as ocp
import pytest

from runtime.collectors.defaults import default_collectors
from runtime.contract.metrics import METRICS, describe
from runtime.contract.results import PointResult, Sample
from runtime.contract.suite import CheckpointSpec, Point
from runtime.measure import Recorder

POINT = Point(0, "Bench", "abc", "x.Bench", "native", {}, None, CheckpointSpec())
UNITS = {"s", "bytes", "count", "bytes/s", "1"}


def test_every_metric_of_a_real_save_is_described(tmp_path: Path) -> None:
    kept: list[Sample | PointResult] = []
    recorder = Recorder(kept, run_id="r", collectors=default_collectors())
    tree = {"a": jnp.ones((64, 64))}
    with recorder.repeat(POINT, 0, False), ocp.StandardCheckpointer() as checkpointer:
        with recorder.measure("save", payload_bytes=64 * 64 * 4):
            checkpointer.save(tmp_path / "c", tree)
            checkpointer.wait_until_finished()
        with recorder.measure("restore", payload_bytes=64 * 64 * 4):
            checkpointer.restore(tmp_path / "c", tree)
    recorder.close()
    samples = [record for record in kept if isinstance(record, Sample)]
    assert {"time_s", "bytes_per_s", "rss_per_saved_byte", "written_bytes"} <= {s.metric for s in samples}
    for sample in samples:
        told = describe(sample.metric, sample.unit)
        assert told.unit == sample.unit in UNITS, sample.metric
        assert told.source != "the benchmark" or sample.metric == "payload_bytes", sample.metric


def test_table_is_sound() -> None:
    for name, metric in METRICS.items():
        assert metric.unit in UNITS, name
        assert metric.good != "none" or not metric.headline, name


@pytest.mark.parametrize(
    ("metric", "good"),
    [
        ("jax/orbax/write/blocking_s", "lower"),
        ("jax/orbax/read/worker/io/raw/throughput/bytes_per_s_mean", "higher"),
        ("orbax/emergency/restores_count", "none"),
        ("tensorstore/kvstore/file/read", "none"),
        ("my_own_number", "none"),
        ("time_s", "lower"),
        ("bytes_per_s", "higher"),
    ],
)
def test_direction(metric: str, good: str) -> None:
    assert describe(metric, "s").good == good
