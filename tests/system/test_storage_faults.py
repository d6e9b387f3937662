"""A front before a real object store refuses requests and lets others wait: saves and restores go on all the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from runtime.contract.names import points_file, samples_file
from tests.cloud.fake_gcs import make_bucket, serve_gcs
from tests.system.prefect_station import PATIENCE_S, ROOT

pytestmark = pytest.mark.system

LATENCY_S, FRACTION = 1.0, 0.2
SUITE = f"""
suite_name: faults
checkpoint_config: {{spec: {{w: {{dtype: float32, shape: [64, 64]}}, v: {{dtype: float32, shape: [64]}}}}}}
benchmarks:
  - generator: runtime.benchmarks.storage_faults.StorageFaults
    options: {{latency_s: {LATENCY_S}}}
  - generator: runtime.benchmarks.storage_faults.StorageFaults
    options: {{status: [429, 503], fraction: {FRACTION}}}
"""


def test_faults_are_met_and_overcome(tmp_path: Path) -> None:
    (tmp_path / "suite.yaml").write_text(SUITE)
    with serve_gcs(tmp_path / "gcs") as url:
        bucket = make_bucket(url)
        command = [sys.executable, "-m", "runtime", str(tmp_path / "suite.yaml"), "--platform", "cpu"]
        ended = subprocess.run(
            [*command, "--devices-per-worker", "1", "--output", f"gs://{bucket}/run"],
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
    assert [(each["status"], each["cause"]) for each in results] == [("passed", "")] * 3
    table = pq.read_table(folder / samples_file(1, 0)).to_pylist()
    assert value(table, 0, "save", "requests") > 3
    for operation in ("save", "restore"):
        # How long it takes without, on a machine that others use, says nothing.
        assert value(table, 0, f"{operation}_undisturbed", "time_s") > 0
        assert value(table, 0, operation, "time_s") > 0.95 * LATENCY_S
        assert value(table, 0, operation, "faults") == 0
    for point in (1, 2):
        counts = [
            sum(value(table, point, operation, metric) for operation in ("save", "restore"))
            for metric in ("requests", "faults")
        ]
        assert counts[1] == int(counts[0] * FRACTION) > 0, "as many as were asked for"


def value(table: list[dict[str, Any]], point: int, operation: str, metric: str) -> float:
    (found,) = (
        each["value"]
        for each in table
        if (each["point"], each["operation"], each["metric"]) == (point, operation, metric)
    )
    return float(found)
