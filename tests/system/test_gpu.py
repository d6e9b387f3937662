"""CUDA: save from and restore to device memory, through the whole pipeline (`make test-gpu`, docs/gpu.md).

Workers run in a venv that is built, or, where nothing can be fetched, in the Python that SLICEBENCH_GPU_PYTHON names.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tasks.targets.local_gpus import usable

ROOT = Path(__file__).parents[2]
PYTHON = os.environ.get("SLICEBENCH_GPU_PYTHON")
GPUS = usable(os.environ)
MIB = 2**20

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        GPUS == 0, reason="there is no GPU that may be used: run it on a machine that has one"
    ),
]


@dataclass(frozen=True)
class Ended:
    """A run that is over: what the command printed, and all that was measured."""

    code: int
    told: dict[str, Any]
    folder: Path
    errors: str

    def samples(self) -> pd.DataFrame:
        return pd.read_parquet(self.folder / "samples.parquet")

    def devices(self) -> list[dict[str, Any]]:
        manifests = sorted((self.folder / "results").glob("manifest-*.json"))
        return [json.loads(manifest.read_text())["devices"] for manifest in manifests]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The state root of all runs here: a venv is built once."""
    return tmp_path_factory.mktemp("home")


def run(home: Path, suite: str, run_id: str, *more: str) -> Ended:
    target = home / "gpu.yaml"
    python = f"python: {PYTHON}\n" if PYTHON else ""
    target.write_text(f"kind: local\nplatform: gpu\nworkers: 1\n{python}")
    done = subprocess.run(
        [sys.executable, "-m", "flows.cli.main", "run", suite, "--target", str(target), "--no-server",
         "--json", "--run-id", run_id, *more],
        cwd=ROOT,
        env={**os.environ, "SLICEBENCH_HOME": str(home), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=840,
    )  # fmt: skip
    assert done.stdout, done.stderr
    return Ended(done.returncode, json.loads(done.stdout), home / "runs" / run_id, done.stderr)


def over_all_gpus() -> list[str]:
    return ["--set", f"mesh_config={{mesh_axes: [data, model], ici_parallelism: {{data: {GPUS}}}}}"]


@pytest.mark.parametrize("suite", ["quickstart", "array_handler", "checkpoint_manager", "save_load"])
def test_what_is_restored_to_device_memory_is_what_was_saved_from_it(home: Path, suite: str) -> None:
    ended = run(home, suite, suite.replace("_", "-"), *over_all_gpus())
    assert ended.code == 0, ended.errors
    (devices,) = ended.devices()
    assert (devices["platform"], devices["local_count"]) == ("gpu", GPUS)
    samples = ended.samples().pivot_table(
        index=["benchmark_key", "repeat", "operation", "occurrence"], columns="metric", values="value"
    )
    restores = samples.loc[
        samples.index.get_level_values("operation").isin(["restore", "deserialize", "load"])
    ]
    assert len(restores) > 0
    # The payload is spread over the GPUs evenly, and the fullest one counts.
    share = restores.payload_bytes / GPUS
    assert (restores.device_peak_over_start_bytes >= 0.95 * share).all(), restores
    saves = samples.loc[samples.payload_bytes.notna()].drop(restores.index)
    assert (saves.device_start_bytes >= 0.95 * saves.payload_bytes / GPUS).all(), saves


def test_device_memory_is_what_was_taken(home: Path, tmp_path: Path) -> None:
    shutil.copy(Path(__file__).with_name("device_truths.py"), tmp_path)
    suite = tmp_path / "hold.yaml"
    # From large to small: the second is below the record, so it is sampled.
    suite.write_text(
        "suite_name: hold\nnum_repeats: 3\n"
        f"mesh_config: {{mesh_axes: [d], ici_parallelism: {{d: {GPUS}}}}}\n"
        "checkpoint_config: {spec: {step: int}}\n"
        "benchmarks: [{generator: device_truths.Hold, options: {mib: [256, 64]}}]\n"
    )
    ended = run(home, str(suite), "hold")
    assert ended.code == 0, ended.errors
    samples = ended.samples()
    grown = samples[samples.metric == "device_peak_over_start_bytes"]
    medians = sorted(grown.groupby("benchmark_key").value.median())
    assert medians == [pytest.approx(64 * MIB, rel=0.05), pytest.approx(256 * MIB, rel=0.05)]


def test_one_wrong_element_in_device_memory_fails_the_point(home: Path, tmp_path: Path) -> None:
    shutil.copy(Path(__file__).with_name("device_truths.py"), tmp_path)
    suite = tmp_path / "alter.yaml"
    suite.write_text(
        "suite_name: alter\n"
        f"mesh_config: {{mesh_axes: [d], ici_parallelism: {{d: {GPUS}}}}}\n"
        "checkpoint_config: {spec: {kernel: {dtype: float32, shape: [64, 8], sharding: [d]}}}\n"
        "benchmarks: [{generator: device_truths.Alter, options: {}}]\n"
    )
    ended = run(home, str(suite), "alter")
    assert ended.code == 1, ended.errors
    assert "restored leaf kernel is not what was saved: element [5, 3]" in ended.errors


@pytest.mark.parametrize("where", ["disk", "memory"])
def test_ours_takes_as_long_as_orbax_alone(home: Path, tmp_path: Path, where: str) -> None:
    """In one process and in turn, from device memory and back; both are printed, in GiB/s."""
    shutil.copy(Path(__file__).with_name("device_truths.py"), tmp_path)
    gib = float(os.environ.get("SLICEBENCH_GPU_GIB", "1"))
    rows = int(gib * 2**30 / 8 / 4 / 4096)
    arrays = "".join(
        f"    a{n}: {{dtype: float32, shape: [{rows}, 4096], sharding: [d, null]}}\n" for n in range(8)
    )
    suite = tmp_path / "beside.yaml"
    suite.write_text(
        "suite_name: beside\nnum_repeats: 6\nwarmup: 1\n"
        f"mesh_config: {{mesh_axes: [d], ici_parallelism: {{d: {GPUS}}}}}\n"
        f"checkpoint_config:\n  spec:\n{arrays}"
        "benchmarks: [{generator: device_truths.Beside, options: {}}]\n"
    )
    output = ["--output", str(tmp_path)] if where == "disk" else ["--output", "/dev/shm/slicebench-beside"]
    try:
        ended = run(home, str(suite), f"beside-{where}", *output)
        assert ended.code == 0, ended.errors
        folder = Path(output[1]) / f"beside-{where}"
        told = pd.read_parquet(folder / "samples.parquet").query("not warmup")
    finally:
        shutil.rmtree("/dev/shm/slicebench-beside", ignore_errors=True)
    took = told[told.metric == "time_s"].pivot_table(index="repeat", columns="operation", values="value")
    alone = told[told.operation == "alone"].pivot_table(index="repeat", columns="metric", values="value")
    ours = {"save": took.save + took.wait_until_finished, "restore": took.restore}
    for operation, seconds in ours.items():
        theirs = alone[f"{operation}_alone_s"]
        speeds = [gib / one.median() for one in (seconds, theirs)]
        print(f"{where}: {operation} {speeds[0]:.2f} GiB/s, Orbax alone {speeds[1]:.2f} GiB/s")
        assert 0.8 < (seconds / theirs).median() < 1.25, (seconds, theirs)


@pytest.mark.skipif(GPUS < 2, reason="two workers need two GPUs")
def test_two_workers_have_gpus_of_their_own(home: Path) -> None:
    workers = ["--workers", "2", "--devices-per-worker", str(GPUS // 2)]
    shape = f"mesh_config={{mesh_axes: [data, model], ici_parallelism: {{data: {GPUS // 2 * 2}}}}}"
    ended = run(home, "quickstart", "two", *workers, "--set", shape)
    assert ended.code == 0, ended.errors
    assert [devices["local_count"] for devices in ended.devices()] == [GPUS // 2] * 2
