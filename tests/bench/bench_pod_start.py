"""The inner loop on Kubernetes: a suite is edited, a run starts, its pods are scheduled, and measuring begins."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from tasks.cloud.storage import open_folder
from tests.bench.bare_jax import bare_jax
from tests.bench.bars import Bar, bar
from tests.bench.pace import rounds
from tests.bench.peers import ROOT
from tests.cloud.fake_gcs import make_bucket, serve_gcs
from tests.cloud.kubernetes.client import PODS, Plain
from tests.cloud.kubernetes.stand_in import KubernetesStandIn
from tests.slowness import slowness

HOSTS = 2

ROUNDS = (3, 7)
"""At least and at most."""

BUDGET_S = 150.0

LIMIT_S = 3.0

_SUITE = """\
suite_name: pod-start
num_repeats: 1
mesh_config: {{mesh_axes: [x], ici_parallelism: {{x: {hosts}}}}}
checkpoint_config:
  spec: {{a: {{dtype: float32, shape: [64, {size}], sharding: [x, null]}}}}
benchmarks:
  - generator: runtime.benchmarks.pytree_checkpoint.PyTreeCheckpoint
    options: {{use_ocdbt: true}}
"""

_TARGET = """\
kind: gke
context: standin
kubeconfig: {kubeconfig}
type: cpu
nodes: {hosts}
image: registry.invalid/worker@sha256:{digest}
queue: null
priority: null
cpu: '1'
limits: {{workload_s: 600}}
"""


@dataclass(frozen=True)
class Place:
    """Where all of it is played: a cluster, a bucket, and a folder of this machine."""

    cluster: KubernetesStandIn
    output: str
    folder: Path
    environment: Mapping[str, str]


def measure() -> list[Bar]:
    """Returns the bar: seconds from the scheduling of a run's pods to the first thing measured, less bare JAX's."""
    with _place() as place:
        _play(place, 0)
        ours, allowed = [], []
        for number in rounds("pod start", *ROUNDS, BUDGET_S):
            slow = slowness()
            bare = bare_jax(HOSTS)
            took = _play(place, number + 1)
            print(f"bare JAX {bare:.2f} s, all {took:.2f} s", file=sys.stderr, flush=True)
            ours.append(took - bare)
            allowed.append(LIMIT_S * slow)
    what = f"an edited suite: from scheduling {HOSTS} pods to measuring, less bare JAX / {LIMIT_S:g} s"
    return [bar(f"{what} × {sorted(allowed)[len(allowed) // 2] / LIMIT_S:.1f}", ours, allowed, at_most=1.0)]


@contextmanager
def _place() -> Iterator[Place]:
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch, serve_gcs(Path(scratch) / "gcs") as url:
        folder = Path(scratch)
        emulator = {
            "STORAGE_EMULATOR_HOST": url,
            "TENSORSTORE_GCS_HTTP_URL": url,
            "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
            "GOOGLE_CLOUD_PROJECT": "p",
        }
        os.environ |= emulator
        image = {"PYTHONPATH": str(ROOT), **emulator}
        nodes = [{"pool": "cpu", "count": HOSTS}]
        with KubernetesStandIn.started(folder, image_env=image, nodes=nodes) as cluster:
            yield Place(cluster, f"gs://{make_bucket(url)}/runs", folder, emulator)


def _play(place: Place, number: int) -> float:
    """Edits the suite and runs it; returns the seconds from the first pod's scheduling until something is measured."""
    suite, target = place.folder / "suite.yaml", place.folder / "target.yaml"
    suite.write_text(_SUITE.format(hosts=HOSTS, size=64 + number))
    target.write_text(_TARGET.format(kubeconfig=place.cluster.kubeconfig, hosts=HOSTS, digest="0" * 64))
    run_id = f"pods-{number}"
    with _scheduled(place.cluster) as scheduled:
        _run(place, suite, target, run_id)
    results = open_folder(f"{place.output}/{run_id}")
    samples = pq.read_table(io.BytesIO(results.read("samples.parquet") or b""), columns=["started_at"])
    return float(min(samples.column("started_at").to_pylist())) - scheduled[0]


@contextmanager
def _scheduled(cluster: KubernetesStandIn) -> Iterator[list[float]]:
    """Gives the moment at which a pod of the block is first seen to have its node. (The cluster says whole seconds.)"""
    api, found = Plain(cluster.url), list[float]()
    version = api.get(PODS)["metadata"]["resourceVersion"]

    def watch() -> None:
        for _, pod in api.watch(PODS, resourceVersion=version):
            if pod["spec"].get("nodeName"):
                found.append(time.time())
                return

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    yield found
    watching.join(10)


def _run(place: Place, suite: Path, target: Path, run_id: str) -> None:
    words = ["run", str(suite), "--target", str(target), "--output", place.output, "--run-id", run_id]
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "JAX_"))}
    home = {"SLICEBENCH_HOME": str(place.folder / "state"), "PYTHONPATH": str(ROOT), "DO_NOT_TRACK": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "flows.cli.main", *words, "--direct", "--json"],
        cwd=ROOT, env=clean | home, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
