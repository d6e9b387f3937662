"""A whole run whose output is a bucket: two workers save, restore and report through a real object store."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from tasks.cloud.storage import open_folder

ROOT = Path(__file__).parents[2]


@pytest.mark.system
def test_a_run_lives_in_a_bucket(gcs_bucket: str, gcs_url: str) -> None:
    emulator = {
        "STORAGE_EMULATOR_HOST": gcs_url,
        "TENSORSTORE_GCS_HTTP_URL": gcs_url,
        "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
        "GOOGLE_CLOUD_PROJECT": "p",
    }
    output = f"{gcs_bucket}/runs"
    flags = [word for name, value in emulator.items() for word in ("--env", f"{name}={value}")]
    command = [sys.executable, "-m", "flows.cli.main", "run", "quickstart", "--no-server", "--json"]
    done = subprocess.run(
        [*command, "--output", output, "--run-id", "in-a-bucket", "--set", "num_repeats=2", *flags],
        cwd=ROOT,
        env={**os.environ, **emulator},
        capture_output=True,
        text=True,
        timeout=600,
    )

    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["report"] == f"{output}/in-a-bucket/report.html"
    folder = open_folder(f"{output}/in-a-bucket")
    samples = pd.read_parquet(io.BytesIO(folder.read("samples.parquet") or b""))
    saves = samples[(samples.operation == "save") & (samples.metric == "time_s") & ~samples.warmup]
    assert len(saves) == 2 * 2 * 2  # points × repeats × workers
    assert b"worker" in (folder.read("logs/worker-0000.log") or b"")
    # What lay in the bucket for a repeat has gone with it.
    assert list(folder.names("checkpoints")) == []
