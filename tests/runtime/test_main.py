"""`python -m runtime` as a process: a user's class, two workers over gloo, and what its exit code says."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from runtime.contract.errors import ExitCode
from runtime.contract.limits import DEVICE_TO_HOST, HOST_TO_DEVICE, LIMITS, limits_of
from runtime.contract.names import manifest_file, points_file, samples_file
from tests.waiting import PATIENCE_S

ROOT = Path(__file__).parents[2]

USERS = """
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from runtime.benchmarks.benchmark import Benchmark, Context


@dataclass(frozen=True)
class Options:
    size: int = 4
    fail_on: int = -1


class Mine(Benchmark):
    options_class = Options

    def run(self, context: Context) -> None:
        if jax.process_index() == self.options.fail_on:
            raise RuntimeError("worker dislikes this")
        with context.measure("compute"):
            total = jax.jit(jnp.sum)(jnp.arange(self.options.size, dtype=jnp.int64))
        assert total.dtype == jnp.int64
        context.value("compute", "total", float(total), "count")
"""

SUITE = """
suite_name: mine
benchmarks:
  - generator: my_benchmarks.Mine
    options: {size: [4, 5], fail_on: FAIL_ON}
"""

SHARDED = """
suite_name: sharded
num_repeats: 2
mesh_config: {mesh_axes: [data, model], ici_parallelism: {model: 2}, dcn_parallelism: {data: 2}}
checkpoint_config:
  spec:
    w: {dtype: float32, shape: [64, 16], sharding: [data, model]}
    r: {dtype: bfloat16, shape: [8]}
    step: int
    name: str
benchmarks:
  - generator: orbax.checkpoint._src.testing.benchmarks.pytree_checkpoint_benchmark.PyTreeCheckpointBenchmark
    options: {use_zarr3: true}
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    (tmp_path / "my_benchmarks.py").write_text(USERS)
    path = tmp_path / "suite.yaml"
    path.write_text(SUITE.replace("FAIL_ON", "-1"))
    return path


def start(
    suite: Path, *flags: str, env: Mapping[str, str] | None = None, devices: int = 1
) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "runtime", str(suite), "--output", str(suite.parent / "run")]
    return subprocess.Popen(
        [*command, "--platform", "cpu", "--devices-per-worker", str(devices), *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{suite.parent}", **(env or {})},
    )


def finished(process: subprocess.Popen[str]) -> tuple[int, str]:
    output, _ = process.communicate(timeout=PATIENCE_S)
    return process.returncode, output


def results(suite: Path, worker: int = 0) -> list[dict[str, object]]:
    text = (suite.parent / "run" / points_file(1, worker)).read_text()
    return [json.loads(line) for line in text.splitlines()]


def two(suite: Path, env: Mapping[str, str] | None = None) -> list[subprocess.Popen[str]]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        coordinator = f"127.0.0.1:{taken.getsockname()[1]}"
    flags = ["--workers", "2", "--coordinator", coordinator, "--heartbeat-s", "10"]
    return [start(suite, *flags, "--worker", str(worker), devices=2, env=env) for worker in range(2)]


def test_a_users_class_runs_and_all_is_written(suite: Path) -> None:
    code, output = finished(start(suite, "--debug-dumps", "--run-id", "r7"))
    assert code == ExitCode.DONE, output
    folder = suite.parent / "run"
    table = pq.read_table(folder / samples_file(1, 0)).to_pylist()
    assert [each["value"] for each in table if each["metric"] == "total"] == [6, 10]
    assert {each["run_id"] for each in table} == {"r7"}
    assert [each["status"] for each in results(suite)] == ["passed", "passed"]
    assert results(suite)[0]["implementation"] == "user"
    manifest = json.loads((folder / manifest_file(1, 0)).read_text())
    assert manifest["devices"]["count"] == 1
    assert [(point["point"], point["implementation"]) for point in manifest["points"]] == [
        (0, "user"),
        (1, "user"),
    ]
    assert [point["options"] for point in manifest["points"]] == [each["options"] for each in results(suite)]
    assert [point["options"]["size"] for point in manifest["points"]] == [4, 5]
    assert list(folder.glob("xla_dumps/worker-0000/*sum*.txt")), "no dump of the compiled sum"
    assert list(folder.glob("tensorboard/*/worker-0000/events.out.tfevents.*"))


def test_a_failed_point_is_exit_code_one(suite: Path) -> None:
    suite.write_text(SUITE.replace("FAIL_ON", "[0, -1]").replace("[4, 5]", "4"))
    code, output = finished(start(suite))
    assert code == ExitCode.WORKLOAD_FAILED, output
    assert [each["status"] for each in results(suite)] == ["failed", "passed"]
    assert "RuntimeError: worker dislikes this" in output


@pytest.mark.parametrize(
    ("text", "why"),
    [("suite_name: [", "suite.yaml:1"), (SUITE.replace("benchmarks:", "benchmark:"), "benchmarks")],
)
def test_a_bad_suite_is_refused_before_anything_is_made(suite: Path, text: str, why: str) -> None:
    suite.write_text(text)
    code, output = finished(start(suite))
    assert code == ExitCode.BAD_INPUT
    assert why in output
    assert not (suite.parent / "run").exists()


def test_a_mesh_that_does_not_fit_is_bad_input(suite: Path) -> None:
    suite.write_text(SHARDED)
    code, output = finished(start(suite, devices=3))
    assert code == ExitCode.BAD_INPUT, output
    assert "no mesh fits" in output


def test_two_workers_save_and_restore_one_tree(suite: Path) -> None:
    suite.write_text(SHARDED)
    ended = [finished(process) for process in two(suite, env={"SLICEBENCH_LIMITS": "on"})]
    assert [code for code, _ in ended] == [0, 0], ended
    limits = [
        limits_of(json.loads((suite.parent / "run" / manifest_file(1, worker)).read_text())["limits"])
        for worker in range(2)
    ]
    for each in limits:
        assert each.noise is not None and each.noise.median_s > 0
        skipped = [name for name, limit in each.of.items() if not limit.values]
        assert skipped == [HOST_TO_DEVICE, DEVICE_TO_HOST] and set(each.of) == set(LIMITS)
    assert not [path for path in (suite.parent / "run").iterdir() if path.name.startswith(".")]
    for worker in range(2):
        assert [each["status"] for each in results(suite, worker)] == ["passed"]
        table = pq.read_table(suite.parent / "run" / samples_file(1, worker)).to_pylist()
        timed = [(each["repeat"], each["operation"]) for each in table if each["metric"] == "time_s"]
        operations = ("save", "wait_until_finished", "restore")
        assert timed == [(repeat, name) for repeat in range(2) for name in operations]
        restored = [
            each["value"]
            for each in table
            if each["metric"] == "payload_bytes" and each["operation"] == "restore"
        ]
        assert restored == [64 * 16 * 4 / 2 + 16] * 2


def test_a_worker_that_fails_among_two_leaves_with_its_cause(suite: Path) -> None:
    """Its sibling may hang inside a collective: to end that is its supervisor's part."""
    suite.write_text(SUITE.replace("FAIL_ON", "1"))
    processes = two(suite)
    try:
        code, output = finished(processes[1])
        assert code == ExitCode.WORKLOAD_FAILED, output
        assert [each["cause"] for each in results(suite, 1)] == ["RuntimeError: worker dislikes this"]
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def test_a_class_that_one_worker_lacks_is_known_to_both(suite: Path) -> None:
    """The workers agree before the point begins, and both go on with the next one."""
    text = (suite.parent / "my_benchmarks.py").read_text()
    (suite.parent / "my_benchmarks.py").write_text(
        text + "\nif jax.process_index() == 1:\n    raise ImportError('no moon here')\n"
    )
    ended = [finished(process) for process in two(suite)]
    assert [code for code, _ in ended] == [ExitCode.INFRASTRUCTURE] * 2, ended
    for worker in range(2):
        assert [each["status"] for each in results(suite, worker)] == ["not_run"] * 2
        assert "worker 1: generator my_benchmarks.Mine cannot be imported" in str(
            results(suite, worker)[0]["cause"]
        )
