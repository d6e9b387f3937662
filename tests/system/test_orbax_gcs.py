"""The run's folder may be a bucket: checkpoints, results, events and the sizes of what was stored."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from runtime.contract.names import points_file, samples_file
from tests.cloud.fake_gcs import make_bucket, serve_gcs
from tests.system.prefect_station import PATIENCE_S, ROOT

pytestmark = pytest.mark.system

SUITE = """
suite_name: bucket
mesh_config: {mesh_axes: [data], ici_parallelism: {data: 2}}
checkpoint_config: {spec: {w: {dtype: float32, shape: [64, 64], sharding: [data, null]}}}
benchmarks:
  - generator: orbax.checkpoint._src.testing.benchmarks.pytree_checkpoint_benchmark.PyTreeCheckpointBenchmark
    options: {use_ocdbt: [true, false], use_zarr3: true}
"""


def test_a_bucket_is_as_good_as_a_folder(tmp_path: Path) -> None:
    (tmp_path / "suite.yaml").write_text(SUITE)
    with serve_gcs(tmp_path / "gcs") as url:
        bucket = make_bucket(url)
        command = [sys.executable, "-m", "runtime", str(tmp_path / "suite.yaml"), "--platform", "cpu"]
        ended = subprocess.run(
            [*command, "--devices-per-worker", "2", "--output", f"gs://{bucket}/run"],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "STORAGE_EMULATOR_HOST": url,
                "TENSORSTORE_GCS_HTTP_URL": url,
                "GOOGLE_AUTH_TOKEN_FOR_TESTING": "fake",
                "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
                "GOOGLE_CLOUD_PROJECT": "p",
            },
        )
    assert ended.returncode == 0, ended.stderr[-4000:]
    folder = tmp_path / "gcs" / "data" / bucket / "run"
    results = [json.loads(line) for line in (folder / points_file(1, 0)).read_text().splitlines()]
    assert [each["status"] for each in results] == ["passed", "passed"]
    table = pq.read_table(folder / samples_file(1, 0)).to_pylist()
    stored = [each["value"] for each in table if each["metric"] == "stored_bytes"]
    assert len(stored) == 2 and all(10_000 < value < 100_000 for value in stored)
    assert not [path for path in folder.glob("checkpoints/**/*") if path.is_file()]
