"""Supervisors around real workers: JAX joined over Gloo, Orbax saving; workers are killed and stopped in a save."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from runtime.contract.job import Deadlines
from runtime.contract.progress import Operation, Stacks, Started
from tests.runtime.supervised import Crew
from tests.system.prefect_station import PATIENCE_S
from tests.waiting import until

pytestmark = pytest.mark.system

STUCK_S = 30.0
"""After which an operation counts as stuck: longer than a machine stalls for, in which nobody was stopped."""

SUITE = """
suite_name: Survives
num_repeats: {repeats}
mesh_config:
  mesh_axes: [data]
  ici_parallelism: {{data: 4}}
checkpoint_config:
  spec:
    a: {{dtype: float32, shape: [4096, 1024], sharding: [data, null]}}
benchmarks:
  - generator: {generator}
    options:
      use_ocdbt: [true, false]
"""
OF_ORBAX = "orbax.checkpoint._src.testing.benchmarks.pytree_checkpoint_benchmark.PyTreeCheckpointBenchmark"


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[Crew]:
    made = Crew(tmp_path, workers=2)
    made.job = {
        "python": sys.executable,
        "suite": str(tmp_path / "suite.yaml"),
        "devices_per_worker": 2,
        "deadlines": Deadlines(init_s=PATIENCE_S, operation_s=PATIENCE_S),
    }
    (tmp_path / "suite.yaml").write_text(SUITE.format(repeats=3, generator=OF_ORBAX))
    yield made
    made.end()


def hold(crew: Crew, worker: int, repeat: int) -> Path:
    """Has a worker stay in the save of a repeat of the first point; returns the file that says that it is there."""
    held = crew.folder / "held"
    suite = yaml.safe_load(SUITE.format(repeats=repeat + 2, generator="tests.system.held.Held"))
    suite["benchmarks"][0]["options"] |= {"held": str(held), "worker": worker, "repeat": repeat}
    (crew.folder / "suite.yaml").write_text(yaml.safe_dump(suite))
    return held


def in_save(crew: Crew, worker: int, repeat: int) -> bool:
    steps = crew.bodies(Operation, worker)
    return any(step.repeat == repeat and step.operation == "save" and step.phase == "begin" for step in steps)


def statuses(crew: Crew, worker: int) -> list[str]:
    return [status for status, _ in crew.points_file(worker).values()]


def test_two_workers_run_a_suite(crew: Crew) -> None:
    crew.start()
    assert crew.wait(PATIENCE_S) == [0, 0]
    for worker in range(2):
        assert statuses(crew, worker) == ["passed", "passed"]
        assert len(crew.bodies(Started, worker)) == 1
    crew.nothing_left(PATIENCE_S)


@pytest.mark.parametrize("victim", [0, 1])
def test_a_worker_killed_in_a_save_costs_one_point(crew: Crew, victim: int) -> None:
    held = hold(crew, victim, 2)
    crew.start()
    until(lambda: held.exists() and in_save(crew, victim, 2), PATIENCE_S)
    os.kill(crew.bodies(Started, victim)[0].pid, signal.SIGKILL)
    assert crew.wait(PATIENCE_S) == [1, 1]
    for worker in range(2):
        status, cause = crew.points_file(worker)[0]
        assert status == "failed"
        assert f"worker {victim} was killed by SIGKILL while in" in cause
        assert crew.points_file(worker)[1] == ("passed", "")
    crew.nothing_left(PATIENCE_S)


@pytest.mark.parametrize("victim", [0, 1])
def test_a_worker_stopped_in_a_save_is_named(crew: Crew, victim: int) -> None:
    held = hold(crew, victim, 2)
    crew.job["deadlines"] = Deadlines(init_s=PATIENCE_S, operation_s=STUCK_S)
    crew.start()
    until(lambda: held.exists() and in_save(crew, victim, 2), PATIENCE_S)
    os.kill(crew.bodies(Started, victim)[0].pid, signal.SIGSTOP)
    assert crew.wait(PATIENCE_S) == [1, 1]
    for worker in range(2):
        status, cause = crew.points_file(worker)[0]
        assert status == "failed"
        assert (
            f"worker {victim} was stopped by SIGSTOP" in cause
            or f"worker {victim} (stopped by SIGSTOP)" in cause
        )
        assert crew.points_file(worker)[1] == ("passed", "")
    assert any("Thread" in body.text for body in crew.bodies(Stacks, 1 - victim)) or crew.bodies(
        Stacks, victim
    )
    crew.nothing_left(PATIENCE_S)


def test_finished_samples_of_a_killed_worker_are_kept(crew: Crew) -> None:
    import pyarrow.parquet as pq

    held = hold(crew, 1, 3)
    crew.start()
    until(lambda: held.exists() and in_save(crew, 1, 3), PATIENCE_S)
    crew.started[1].kill()
    assert crew.wait(PATIENCE_S) == [3, -signal.SIGKILL]
    table = pq.read_table(crew.folder / "run" / "results" / "samples-a1-w0000.parquet").to_pylist()
    assert {sample["repeat"] for sample in table if sample["operation"] == "save"} >= {0, 1}
    assert crew.points_file(0)[0][0] == "not_run"
    assert json.dumps(crew.points_file(0)[1][1])
    crew.nothing_left(PATIENCE_S)
