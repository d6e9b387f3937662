"""Monitoring tags: each occurrence counted, and credited to the block that caused it."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from jax import monitoring

from runtime.collectors.monitoring import COMPILE_COUNT, Monitoring
from runtime.contract.results import PointResult, Sample
from runtime.contract.suite import CheckpointSpec, Point
from runtime.measure import Recorder
from tests.waiting import PATIENCE_S

POINT = Point(0, "Bench", "abc", "x.Bench", "native", {}, None, CheckpointSpec())


class Kept(list[Sample | PointResult]):
    """A journal in memory."""

    def told(self) -> dict[str, dict[str, float]]:
        """Returns metric → operation → value, the occurrence in the operation's name from the second on."""
        found: dict[str, dict[str, float]] = defaultdict(dict)
        for record in self:
            assert isinstance(record, Sample)
            occurrence = f"#{record.occurrence}" if record.occurrence else ""
            found[record.metric][f"{record.operation}{occurrence}"] = record.value
        return found


@pytest.fixture
def kept() -> Kept:
    return Kept()


@pytest.fixture
def recorder(kept: Kept) -> Iterator[Recorder]:
    made = Recorder(kept, run_id="r", collectors=[Monitoring()])
    yield made
    made.close()


def test_repeated_events_are_counted_and_summed(recorder: Recorder, kept: Kept) -> None:
    with recorder.repeat(POINT, 0, False), recorder.measure("save"):
        for seconds in (0.3, 0.2, 0.1):
            monitoring.record_event_duration_secs("/jax/test/write_duration_secs", seconds)
            monitoring.record_event("/jax/test/cache_hits")
            monitoring.record_scalar("/jax/test/gbytes", 0.5)
            monitoring.record_scalar("/jax/test/throughput/gbytes_per_sec", seconds)
    told = kept.told()
    assert told["jax/test/write_count"] == {"save": 3}
    assert told["jax/test/write_s"] == {"save": pytest.approx(0.6)}
    assert told["jax/test/cache_hits_count"] == {"save": 3}
    assert told["jax/test/bytes_sum"] == {"save": 1.5 * 2**30}
    assert told["jax/test/throughput/bytes_per_s_mean"] == {"save": pytest.approx(0.2 * 2**30)}
    units = {record.metric: record.unit for record in kept if isinstance(record, Sample)}
    assert units["jax/test/write_s"] == "s"
    assert units["jax/test/bytes_sum"] == "bytes"


def test_moments_are_no_metrics(recorder: Recorder, kept: Kept) -> None:
    with recorder.repeat(POINT, 0, False), recorder.measure("save"):
        monitoring.record_scalar("/jax/test/start_time", time.time())
        monitoring.record_scalar("/jax/test/start_time_ms", time.time() * 1000)
    assert not [metric for metric in kept.told() if "start_time" in metric]


def test_events_outside_of_blocks_are_kept(recorder: Recorder, kept: Kept) -> None:
    monitoring.record_event("/jax/test/before")
    with recorder.repeat(POINT, 0, False):
        monitoring.record_event("/jax/test/amid")
        with recorder.measure("save"):
            pass
        monitoring.record_event("/jax/test/amid")
    assert kept.told()["jax/test/before_count"] == {"setup": 1}
    assert kept.told()["jax/test/amid_count"] == {"between": 2}


def test_innermost_block_and_occurrence_get_the_event(recorder: Recorder, kept: Kept) -> None:
    with recorder.repeat(POINT, 0, False), recorder.measure("outer"):
        for _ in range(2):
            with recorder.measure("inner"):
                monitoring.record_event("/jax/test/tick")
        monitoring.record_event("/jax/test/tick")
    assert kept.told()["jax/test/tick_count"] == {"inner": 1, "inner#1": 1, "outer": 1}


def test_background_work_belongs_to_the_block_that_began_it(recorder: Recorder, kept: Kept) -> None:
    go = threading.Event()

    def grandchild() -> None:
        monitoring.record_event("/jax/test/grandchild")

    def commit() -> None:
        go.wait(PATIENCE_S)
        monitoring.record_event("/jax/test/commit")
        child = threading.Thread(target=grandchild)
        child.start()
        child.join()

    with recorder.repeat(POINT, 0, False):
        with recorder.measure("save"):
            thread = threading.Thread(target=commit)
            thread.start()
        with recorder.measure("wait"):
            go.set()
            thread.join()
    assert kept.told()["jax/test/commit_count"] == {"save": 1}
    assert kept.told()["jax/test/grandchild_count"] == {"save": 1}


def test_thread_of_an_earlier_repeat_works_for_the_open_block(recorder: Recorder, kept: Kept) -> None:
    with ThreadPoolExecutor(1) as pool:
        for repeat in range(2):
            with recorder.repeat(POINT, repeat, False), recorder.measure(f"op{repeat}"):
                pool.submit(monitoring.record_event, "/jax/test/pooled").result()
    assert kept.told()["jax/test/pooled_count"] == {"op0": 1, "op1": 1}


def test_compiles_are_counted_also_when_there_are_none(recorder: Recorder, kept: Kept) -> None:
    arrays = [jnp.ones(length) for length in (3, 4, 5)]
    program = jax.jit(lambda x: x * 2 + 1)
    with recorder.repeat(POINT, 0, False):
        with recorder.measure("storm"):
            for array in arrays:
                program(array)
        with recorder.measure("calm"):
            program(arrays[0])
    compiled = kept.told()[COMPILE_COUNT]
    assert (compiled["storm"], compiled["calm"]) == (3, 0)
    assert kept.told()["jax/core/compile/backend_compile_s"]["storm"] > 0


def test_closed_collector_hears_nothing(kept: Kept) -> None:
    start = threading.Thread.start
    recorder = Recorder(kept, run_id="r", collectors=[Monitoring()])
    assert threading.Thread.start is not start
    recorder.close()
    assert threading.Thread.start is start
    with recorder.repeat(POINT, 0, False), recorder.measure("save"):
        monitoring.record_event("/jax/test/tick")
    assert "jax/test/tick_count" not in kept.told()


@pytest.mark.parametrize("api", ["v0", "v1"])
def test_commit_of_an_asynchronous_save_belongs_to_the_save(
    recorder: Recorder, kept: Kept, tmp_path: Path, api: str
) -> None:
    import orbax.checkpoint as ocp

    tree = {"a": jnp.ones((64, 64))}
    with recorder.repeat(POINT, 0, False):
        if api == "v0":
            with ocp.StandardCheckpointer() as checkpointer:
                with recorder.measure("save"):
                    checkpointer.save(tmp_path / "c", tree)
                with recorder.measure("wait"):
                    checkpointer.wait_until_finished()
        else:
            with recorder.measure("save"):
                response = ocp.v1.save_async(tmp_path / "c", tree)
            with recorder.measure("wait"):
                response.result()
    told = kept.told()
    assert set(told["jax/orbax/write/async/total_s"]) == {"save"}
    assert set(told["jax/orbax/write/worker/total_s"]) == {"save"}
    assert told["jax/orbax/write/bytes_sum"] == {"save": tree["a"].nbytes}
