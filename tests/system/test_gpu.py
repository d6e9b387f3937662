"""The quickstart on CUDA: save from and restore to device memory, through the whole pipeline (`make test-gpu`)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

ROOT = Path(__file__).parents[2]


def _gpus() -> int:
    if shutil.which("nvidia-smi") is None:
        return 0
    listed = subprocess.run(["nvidia-smi", "--list-gpus"], capture_output=True, text=True, timeout=60)
    return len(listed.stdout.splitlines()) if listed.returncode == 0 else 0


@pytest.mark.gpu
@pytest.mark.skipif(_gpus() == 0, reason="there is no GPU: run it on a machine where nvidia-smi lists one")
def test_the_quickstart_runs_from_device_memory(tmp_path: Path) -> None:
    mesh = f"mesh_config={{mesh_axes: [data, model], ici_parallelism: {{data: {_gpus()}}}}}"
    command = [
        sys.executable,
        "-m",
        "flows.cli.main",
        "run",
        "quickstart",
        "--target",
        "local-gpu",
        "--no-server",
    ]
    done = subprocess.run(
        [*command, "--json", "--output", str(tmp_path / "runs"), "--run-id", "on-gpu", "--set", mesh],
        cwd=ROOT,
        env={**os.environ, "SLICEBENCH_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        timeout=840,
    )

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["exit_code"] == 0
    folder = tmp_path / "runs" / "on-gpu"
    manifest = json.loads(next((folder / "results").glob("manifest-*.json")).read_text())
    assert "gpu" in json.dumps(manifest)
    samples = pd.read_parquet(folder / "samples.parquet")
    assert (samples.metric == "device_peak_bytes").any()
