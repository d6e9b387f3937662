"""Whole runs by the command on a cluster that is made for them: trained in its pods, collected, and then it is gone."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from tasks.cloud.storage import open_folder
from tests.cloud.container.running import Gke
from tests.cloud.kubernetes.releases import Releases
from tests.waiting import until

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
TARGET: dict[str, Any] = {
    "kind": "gke",
    "type": "n2-standard-4-2",
    "image": f"registry.invalid/worker@sha256:{'0' * 64}",
    "cpu": "1",
    "limits": {"workload_s": 600},
}


class Bench:
    """Runs the command with everything leading to the stand-ins. Clusters are bare: JobSet and Kueue are put in."""

    def __init__(self, gke: Gke, gcs_url: str, releases: Releases, folder: Path) -> None:
        emulator = {
            "STORAGE_EMULATOR_HOST": gcs_url,
            "TENSORSTORE_GCS_HTTP_URL": gcs_url,
            "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
            "GOOGLE_CLOUD_PROJECT": "proj",
        }
        image = {"image_env": {"PYTHONPATH": str(ROOT), **emulator}}
        gke.set(kubernetes={**image, "without": ["jobset", "kueue"]})
        self.target = folder / "made.yaml"
        place = {"name": "mine", "location": "us-east5", "zone": "us-east5-b"}
        made = {"queueing": releases.queueing()}
        self.target.write_text(yaml.safe_dump({**TARGET, "cluster": {**place, "make": made}}))
        self._env = {
            **os.environ,
            **emulator,
            "SLICEBENCH_HOME": str(folder / "home"),
            "SLICEBENCH_CONTAINER_ENDPOINT": gke.endpoint,
            "GOOGLE_APPLICATION_CREDENTIALS": str(gke.credentials()),
        }

    def __call__(self, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "flows.cli.main", *words]
        done = subprocess.run(command, cwd=ROOT, env=self._env, capture_output=True, text=True, timeout=600)
        assert done.returncode == code, done.stderr
        return done

    def begin(self, output: str, run_id: str) -> subprocess.Popen[str]:
        """Starts a run and returns at once."""
        words = [sys.executable, "-m", "flows.cli.main", "run", "quickstart", "--target", str(self.target)]
        words += ["--output", output, "--run-id", run_id, "--direct"]
        return subprocess.Popen(words, cwd=ROOT, env=self._env, stderr=subprocess.PIPE, text=True)

    def run(self, output: str, run_id: str, *more: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        words: Sequence[str] = ("--target", str(self.target), "--output", output, "--run-id", run_id)
        direct = () if "--no-server" in more else ("--direct",)
        return self("run", "quickstart", *words, *direct, "--json", *more, code=code)


@pytest.fixture(scope="module")
def releases() -> Iterator[Releases]:
    with Releases.served() as served:
        yield served


@pytest.fixture
def bench(gke: Gke, gcs_url: str, releases: Releases, tmp_path: Path) -> Bench:
    return Bench(gke, gcs_url, releases, tmp_path)


def test_a_suite_runs_on_a_cluster_that_is_made_and_then_gone(
    bench: Bench, gke: Gke, gcs_bucket: str
) -> None:
    output = f"{gcs_bucket}/runs"
    planned = json.loads(
        bench("plan", "quickstart", "--target", str(bench.target), "--output", output, "--json").stdout
    )
    assert [one["kind"] for one in planned["resources"]] == [
        "gke_cluster",
        "gke_node_pool",
        "jobset",
        "jobset",
    ]
    done = bench.run(output, "on-made", "--set", "num_repeats=2")
    assert json.loads(done.stdout)["report"] == f"{output}/on-made/report.html"
    folder = open_folder(f"{output}/on-made")
    samples = pd.read_parquet(io.BytesIO(folder.read("samples.parquet") or b""))
    saves = samples[(samples.operation == "save") & (samples.metric == "time_s") & ~samples.warmup]
    assert len(saves) == 2 * 2 * 2  # points × repeats × workers
    assert gke.inventory() == []
    assert [one["method"] for one in gke.mutations()] == ["CreateCluster", "CreateNodePool", "DeleteCluster"]
    told = done.stderr
    for words in (
        "make cluster mine",
        "make pool np-0",
        "cluster mine in us-east5 is RUNNING",
        "nothing is left",
    ):
        assert words in told, told


def test_a_cluster_is_kept_used_again_and_given_back(bench: Bench, gke: Gke, gcs_bucket: str) -> None:
    output = f"{gcs_bucket}/runs"
    kept = bench.run(output, "first", "--keep", "always", "--keep-for", "1h").stderr
    assert "kept: gke_cluster mine in proj/us-east5" in kept, kept
    assert "use it again with --lease cluster-mine_proj" in kept
    leases = json.loads(bench("leases", "--json").stdout)
    [lease] = [one for one in leases["leases"] if one["name"] == "cluster-mine_proj"]
    assert lease["state"] == "live"
    again = bench.run(output, "again", "--lease", "cluster-mine_proj").stderr
    assert "make cluster" not in again
    assert gke.inventory() == []
    assert [one["method"] for one in gke.mutations()] == ["CreateCluster", "CreateNodePool", "DeleteCluster"]


def test_what_cannot_be_had_is_told_with_its_reason_and_nothing_is_left(
    bench: Bench, gke: Gke, gcs_bucket: str
) -> None:
    gke.set(stockouts=["us-east5-b/n2-standard-4"])
    done = bench.run(f"{gcs_bucket}/runs", "stockout", code=3)
    assert "GCE_STOCKOUT" in done.stderr, done.stderr
    assert gke.inventory() == []
    told = bench("explain", "stockout", "--output", f"{gcs_bucket}/runs").stdout
    assert "does not have enough resources" in told, told


def test_prefect_plays_it_as_well(bench: Bench, gke: Gke, gcs_bucket: str) -> None:
    done = bench.run(f"{gcs_bucket}/runs", "prefect", "--no-server")
    assert "make cluster mine" in done.stderr, done.stderr
    assert gke.inventory() == []
    assert [one["method"] for one in gke.mutations()] == ["CreateCluster", "CreateNodePool", "DeleteCluster"]


def test_a_run_that_is_interrupted_while_its_cluster_is_made_gives_it_back(
    bench: Bench, gke: Gke, gcs_bucket: str
) -> None:
    """The deletion has to wait until GKE is done with the making: nothing is left behind in between."""
    gke.set(hold=["CREATE_CLUSTER"])
    run = bench.begin(f"{gcs_bucket}/runs", "interrupted")
    until(lambda: gke.requests("CreateCluster") or run.poll() is not None)
    run.send_signal(signal.SIGTERM)
    until(lambda: gke.requests("DeleteCluster") or run.poll() is not None)
    assert run.poll() is None, run.communicate()
    gke.set(hold=[])
    _, told = run.communicate(timeout=600)
    assert run.returncode == 130, told
    assert gke.inventory() == [], told
