"""Real processes joined over Gloo: tiers of storage that are lost, replicas that send to each other, a late worker."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from runtime.contract.job import Deadlines
from tests.runtime.benchmarks.known_clock import RELOAD_S, RESTORE_S, SAVE_S, SEND_S, SPANS_S, WAIT_S
from tests.runtime.supervised import Crew
from tests.system.prefect_station import PATIENCE_S

pytestmark = pytest.mark.system

WORKERS = 4
ORBAX = "orbax.checkpoint._src.testing.benchmarks."
TIMED = "tests.system.timed_replicas."
LATE_S = 6.0
SUITE = f"""
suite_name: Replicas
mesh_config: {{mesh_axes: [replica, model], ici_parallelism: {{model: 2}}, dcn_parallelism: {{replica: 2}}}}
checkpoint_config:
  spec:
    params: {{dtype: float32, shape: [64, 64], sharding: [model, null]}}
    scale: {{dtype: bfloat16, shape: [64], sharding: [null]}}
benchmarks:
  - generator: {TIMED}SingleReplica
    options: {{use_replica_parallel: [true, false]}}
  - generator: {TIMED}MultisliceBroadcast
    options: {{}}
  - generator: runtime.benchmarks.slow_worker.SlowWorker
    options: {{slow_worker: 1, late_s: {LATE_S}, rounds: 2}}
  - generator: runtime.benchmarks.reference.Reference
    options: {{to: "{{run}}/made", meshes: "1x2 4x1"}}
  - generator: {ORBAX}v1.restore_and_broadcast_benchmark.RestoreAndBroadcastBenchmark
    options: {{reference_checkpoint_path: "{{run}}/made/ckpt", reference_sharding_path: "{{run}}/made/1x2.json"}}
  - generator: {ORBAX}v1.resharding_benchmark.ReshardingBenchmark
    options: {{reference_checkpoint_path: "{{run}}/made/ckpt", reference_sharding_path: "{{run}}/made/4x1.json"}}
  - generator: {ORBAX}checkpoint_manager_perf_benchmark.CheckpointManagerPerfBenchmark
    options: {{train_steps: 2}}
  - generator: {ORBAX}deleter_benchmark.DeleterBenchmark
    options: {{train_steps: 2, max_to_keep: 9}}
  - generator: {ORBAX}v0_checkpointer_cancel_benchmark.V0CheckpointerCancelBenchmark
    options: {{cancel_delay_secs: 10}}  # too late for all: broken off by some alone, Orbax waits at a barrier for ever
  - generator: runtime.benchmarks.garbage_collection.GarbageCollection
    options: {{steps: 2}}
  - generator: runtime.benchmarks.interference.Interference
    options: {{rounds: 1, steps: 4, layers: 2, width: 256}}
  - generator: {TIMED}Emergency
    options: {{train_steps: 3, local_save_interval_steps: 1, persistent_save_interval_steps: 2}}
  - generator: {TIMED}PeerToPeer
    options: {{train_steps: 3, local_save_interval_steps: 1, persistent_save_interval_steps: 2}}
"""
SINGLE, BROADCAST, SLOW, INTERFERENCE, EMERGENCY, PEER = 0, 2, 3, 11, 12, 13
POINTS = 14
SAVES = {"save": SAVE_S, "wait_until_finished": WAIT_S}
MANAGES = {"create_checkpoint_manager": 0.0, **SAVES, "reload": RELOAD_S}


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[list[dict[str, Any]]]]:
    """The samples of each worker, of one run of all these benchmarks."""
    folder: Path = tmp_path_factory.mktemp("replicas")
    (folder / "replicas.yaml").write_text(SUITE)
    crew = Crew(folder, workers=WORKERS)
    crew.job = {
        "python": sys.executable,
        "suite": str(folder / "replicas.yaml"),
        "devices_per_worker": 1,
        "deadlines": Deadlines(init_s=PATIENCE_S, operation_s=PATIENCE_S),
    }
    try:
        crew.start()
        codes = crew.wait(3 * PATIENCE_S)
        for worker in range(WORKERS):
            assert crew.points_file(worker) == dict.fromkeys(range(POINTS), ("passed", ""))
        assert codes == [0] * WORKERS
        files = sorted((folder / "run" / "results").glob("samples-*.parquet"))
        yield [pq.read_table(file).to_pylist() for file in files]
        assert not list((folder / "run" / "checkpoints").rglob("*.json")), (
            "what was made for the suite is gone"
        )
        crew.nothing_left(PATIENCE_S)
    finally:
        crew.end()


def operations(samples: list[dict[str, Any]], point: int) -> Counter[str]:
    return Counter(
        each["operation"] for each in samples if each["point"] == point and each["metric"] == "time_s"
    )


def test_every_worker_measures_all_of_it(samples: list[list[dict[str, Any]]]) -> None:
    assert len(samples) == WORKERS
    for point in range(POINTS):
        counted = [operations(one, point) for one in samples]
        assert counted[0], point
        # Which steps were beside a save, each worker sees for itself.
        if point != INTERFERENCE:
            assert counted == [counted[0]] * WORKERS, point


def test_each_tier_was_restored_from(samples: list[list[dict[str, Any]]]) -> None:
    emergency, peer = operations(samples[0], EMERGENCY), operations(samples[0], PEER)
    assert (emergency["restore_local"], emergency["restore_persistent"]) == (3, 1)
    assert [peer[name] for name in ("restore_local", "restore_peer", "restore_persistent")] == [2, 2, 1]


def test_a_late_worker_holds_the_others_up_by_as_much_as_it_is_late(
    samples: list[list[dict[str, Any]]],
) -> None:
    for worker, one in enumerate(samples):
        lost = [each["value"] for each in one if (each["point"], each["metric"]) == (SLOW, "held_up_s")]
        if worker == 1:
            assert lost == []
        else:
            # What is lost is a difference of two times, and a busy machine adds some seconds to either.
            assert len(lost) == 2 and min(lost) > LATE_S / 3


@pytest.mark.parametrize(
    ("point", "told"),
    [
        (SINGLE, SAVES | {"construct_restore_args": 0.0, "restore": RESTORE_S}),
        (BROADCAST, {"process_spans_multiple_replicas": SPANS_S, "broadcast_array": SEND_S}),
        (EMERGENCY, MANAGES | {"restore_local": RESTORE_S, "restore_persistent": RESTORE_S}),
        (PEER, MANAGES | dict.fromkeys(("restore_local", "restore_peer", "restore_persistent"), RESTORE_S)),
    ],
)
def test_an_operation_takes_as_long_as_what_it_is_of(
    samples: list[list[dict[str, Any]]], point: int, told: dict[str, float]
) -> None:
    for one in samples:
        found: dict[str, set[float]] = {}
        for each in one:
            if (each["point"], each["metric"]) == (point, "time_s"):
                found.setdefault(each["operation"], set()).add(round(each["value"], 9))
        assert found == {name: {seconds} for name, seconds in told.items()}
