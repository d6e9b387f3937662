"""Whole runs on a cluster that exists: pods of a JobSet train, save, restore and report through a bucket."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from tasks.cloud.storage import open_folder
from tests.cloud.kubernetes.stand_in import KubernetesStandIn

ROOT = Path(__file__).parents[2]


@pytest.fixture
def emulator(gcs_url: str) -> dict[str, str]:
    return {
        "STORAGE_EMULATOR_HOST": gcs_url,
        "TENSORSTORE_GCS_HTTP_URL": gcs_url,
        "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
        "GOOGLE_CLOUD_PROJECT": "p",
    }


@pytest.fixture
def cluster(tmp_path: Path, emulator: dict[str, str]) -> Iterator[KubernetesStandIn]:
    image_env = {"PYTHONPATH": str(ROOT), **emulator}
    pool = {"pool": "cpu", "count": 2}
    with KubernetesStandIn.started(tmp_path, image_env=image_env, nodes=[pool]) as started:
        yield started


@pytest.mark.system
@pytest.mark.parametrize("shape", ["slices: 2\nnodes: 1", "slices: 1\nnodes: 2"], ids=["2x1", "1x2"])
def test_a_suite_runs_in_pods(
    cluster: KubernetesStandIn, emulator: dict[str, str], gcs_bucket: str, tmp_path: Path, shape: str
) -> None:
    target = tmp_path / "there.yaml"
    digest = "sha256:" + "0" * 64
    target.write_text(
        f"kind: gke\ncontext: standin\nkubeconfig: {cluster.kubeconfig}\ntype: cpu\n{shape}\n"
        f"image: registry.invalid/worker@{digest}\nqueue: null\npriority: null\ncpu: '1'\n"
        "limits: {workload_s: 600}\n"
    )
    output = f"{gcs_bucket}/runs"
    command = [sys.executable, "-m", "flows.cli.main", "run", "quickstart", "--no-server", "--json"]
    command += ["--target", str(target), "--output", output, "--run-id", "in-pods", "--set", "num_repeats=2"]
    done = subprocess.run(
        [*command, "--env", "GREETING=$(HOSTNAME) $$"],
        cwd=ROOT,
        env={**os.environ, **emulator, "SLICEBENCH_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        timeout=600,
    )

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["report"] == f"{output}/in-pods/report.html"
    folder = open_folder(f"{output}/in-pods")
    samples = pd.read_parquet(io.BytesIO(folder.read("samples.parquet") or b""))
    saves = samples[(samples.operation == "save") & (samples.metric == "time_s") & ~samples.warmup]
    assert len(saves) == 2 * 2 * 2  # points × repeats × workers
    assert b"has joined: 2 workers" in (folder.read("logs/worker-0001.log") or b"")
    manifest = json.loads(folder.read("results/manifest-a1-w0000.json") or b"{}")
    assert digest in json.dumps(manifest)
    cluster.assert_nothing_left(but=("nodes", "namespaces", "serviceaccounts", "priorityclasses"))


@pytest.mark.system
def test_a_run_that_does_not_wait_is_collected_by_a_later_command(
    cluster: KubernetesStandIn, emulator: dict[str, str], gcs_bucket: str, tmp_path: Path
) -> None:
    target, output = tmp_path / "there.yaml", f"{gcs_bucket}/runs"
    target.write_text(
        f"kind: gke\ncontext: standin\nkubeconfig: {cluster.kubeconfig}\ntype: cpu\nnodes: 2\n"
        f"image: registry.invalid/worker@sha256:{'0' * 64}\nqueue: null\npriority: null\ncpu: '1'\n"
        "wait: false\nlimits: {workload_s: 600}\n"
    )

    def slicebench(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "flows.cli.main", *words, "--output", output, "--json"],
            cwd=ROOT,
            env={**os.environ, **emulator, "SLICEBENCH_HOME": str(tmp_path / "home")},
            capture_output=True,
            text=True,
            timeout=600,
        )

    begun = slicebench("run", "quickstart", "--no-server", "--target", str(target), "--run-id", "left")
    assert begun.returncode == 0, begun.stderr
    assert json.loads(begun.stdout)["left"]["name"] == "sb-left-e1"
    assert "slicebench run --resume left" in begun.stderr
    [listed] = json.loads(slicebench("runs").stdout)["runs"]
    assert listed["state"] == "left running"
    assert json.loads(slicebench("explain", "left").stdout)["state"] == "left"

    done = slicebench("run", "--resume", "left", "--direct")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["report"] == f"{output}/left/report.html"
    [listed] = json.loads(slicebench("runs").stdout)["runs"]
    assert (listed["state"], listed["exit_code"]) == ("done", 0)
    cluster.assert_nothing_left(but=("nodes", "namespaces", "serviceaccounts", "priorityclasses"))
