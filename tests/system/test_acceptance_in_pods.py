"""Acceptances whole in pods of a stand-in cluster: our suites beside our proxy, a program beside a proxy of others.

What stands beside them is a container of its own there: up first, asked by the cluster, ended after the program.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cloud.kubernetes.stand_in import KubernetesStandIn
from tests.cloud.store.running import Store
from tests.cloud.store.running import store_server as store_server
from tests.system.trained import SUITE, ways_to

ROOT = Path(__file__).parents[2]
IMAGE = f"registry.invalid/worker@sha256:{'0' * 64}"
STANDING = ("nodes", "namespaces", "serviceaccounts", "priorityclasses")

pytestmark = pytest.mark.system


@pytest.fixture
def variables(store_server: Store) -> dict[str, str]:
    return ways_to(store_server)


@pytest.fixture
def cluster(tmp_path: Path, store_server: Store, variables: dict[str, str]) -> Iterator[KubernetesStandIn]:
    # What plays go-gcsproxy has its names of variables, and shares its certificate under the name that it has there.
    plays = [
        sys.executable,
        "-m",
        "runtime.gcs_proxy",
        "--listen",
        "127.0.0.1:9080",
        "--forward",
        "127.0.0.1:0",
    ]
    with KubernetesStandIn.started(
        tmp_path / "cluster",
        image_env={"PYTHONPATH": str(ROOT), **variables},
        nodes=[{"pool": "cpu", "count": 2}],
        entrypoints={"*/go-gcsproxy:*": [*plays, "--upstream", store_server.url]},
    ) as started:
        yield started


@pytest.fixture
def target(cluster: KubernetesStandIn, tmp_path: Path, variables: dict[str, str]) -> Path:
    file = tmp_path / "pods.yaml"
    made = {
        "kind": "gke",
        "context": "standin",
        "kubeconfig": str(cluster.kubeconfig),
        "type": "cpu",
        "nodes": 1,
        "image": IMAGE,
        "queue": None,
        "priority": None,
        "cpu": "1",
        "env": variables,
    }
    file.write_text(yaml.safe_dump(made))
    return file


@pytest.fixture
def key(tmp_path: Path) -> Path:
    made = [sys.executable, "-m", "runtime.gcs_proxy", "new-key", str(tmp_path / "key.json")]
    subprocess.run(made, cwd=ROOT, check=True)
    return tmp_path / "key.json"


def accepted(folder: Path, content: Mapping[str, Any], variables: Mapping[str, str]) -> dict[str, Any]:
    """Plays an acceptance, and returns what it came to. What it costs on this machine proves nothing."""
    (folder / "a.yaml").write_text(yaml.safe_dump(dict(content)))
    done = subprocess.run(
        [sys.executable, "-m", "flows.cli.main", "acceptance", str(folder / "a.yaml"), "--direct", "--json"],
        cwd=ROOT,
        env={**os.environ, **variables, "SLICEBENCH_HOME": str(folder / "home")},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode in (0, 4), done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    failed = [
        (variant["variant"], check["name"], check["told"])
        for variant in found["found"]["variants"]
        for check in variant["checks"]
        if check["passed"] is not True
    ]
    assert not failed, done.stderr
    return found


def checks_of(found: Mapping[str, Any], name: str) -> list[str]:
    (variant,) = [one for one in found["found"]["variants"] if one["variant"] == name]
    assert variant["objects"] > 1
    return [check["name"] for check in variant["checks"]]


def test_training_in_pods_beside_the_proxy_resumes_and_leaves_no_plaintext(  # on the network of their host
    cluster: KubernetesStandIn,
    target: Path,
    key: Path,
    tmp_path: Path,
    store_server: Store,
    variables: dict[str, str],
) -> None:
    bucket = store_server.new_bucket()
    target.write_text(yaml.safe_dump({**yaml.safe_load(target.read_text()), "host_network": True}))
    (tmp_path / "t.yaml").write_text(yaml.safe_dump(SUITE))
    content = {
        "name": "pods",
        "target": f"./{target.name}",
        "training": "./t.yaml",
        "output": f"gs://{bucket}/runs",
        "checkpoints": 2,
        "reference": False,
        "variants": [
            {"name": "none"},
            {"name": "own", "encryption": {"keys": {bucket: f"file:{key}"}, "face": "forward"}},
        ],
    }
    found = accepted(tmp_path, content, variables)
    assert len(checks_of(found, "none") + checks_of(found, "own")) == 6
    run = f"runs/{found['folder'].rpartition('/')[2]}-own-1"
    for attempt in (1, 2):
        log = store_server.raw(bucket, f"{run}/logs/sidecar-a{attempt}-w0000.log")
        assert b'"event": "serving"' in log, log
    cluster.assert_nothing_left(but=STANDING)


def test_a_program_beside_a_proxy_of_others_resumes_in_pods(
    cluster: KubernetesStandIn,
    target: Path,
    key: Path,
    tmp_path: Path,
    store_server: Store,
    variables: dict[str, str],
) -> None:
    """configs/acceptance/go-gcsproxy.yaml, with a program, a bucket, a key, and the way to the store of this test."""
    bucket = store_server.new_bucket()
    content = yaml.safe_load((ROOT / "configs/acceptance/go-gcsproxy.yaml").read_text())
    steps = ["--train-steps", "400", "--save-interval-steps", "10", "--max-to-keep", "40", "--step-s", "0.05"]
    content |= {
        "target": f"./{target.name}",
        "training": {
            "image": IMAGE,
            "command": ["python", "-m", "runtime.training", "--directory", "{checkpoints}", *steps],
            "checkpoints": f"gs://{bucket}/acceptance/{{run}}/checkpoints",
            "after": 2,
        },
        "output": f"gs://{bucket}/acceptance",
        "checkpoints": 2,
        "reference": False,
    }
    for variant in content["variants"]:
        if (sidecar := variant.get("sidecar")) is not None:
            # Our clients here take the store's address; what trusts its certificate alone is the proxy's own matter.
            at = dict.fromkeys(("STORAGE_EMULATOR_HOST", "TENSORSTORE_GCS_HTTP_URL"), "http://127.0.0.1:9080")
            sidecar["workload_env"] = at
            if "GCP_KMS_BUCKET_KEY_MAPPING" in sidecar["env"]:
                sidecar["env"]["GCP_KMS_BUCKET_KEY_MAPPING"] = f"{bucket}:file:{key}"
    found = accepted(tmp_path, content, variables)
    assert "plaintext" not in " ".join(checks_of(found, "passing"))
    assert len(checks_of(found, "encrypting")) > len(checks_of(found, "passing"))
    cluster.assert_nothing_left(but=STANDING)
