"""What `slicebench workload create` starts: a folder on a base, an image, Pathways, all that a target file says."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from flows.cli.main import main
from tests.cloud.kubernetes.client import JOBSETS, Plain
from tests.cloud.kubernetes.stand_in import KubernetesStandIn
from tests.cloud.registry import serve_registry
from tests.cloud.registry_store import Store
from tests.flows.cli.submitting import IMAGE, emptied, three_hosts, words_of
from tests.tasks.cloud.test_registry import push_image


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesStandIn]:
    with three_hosts(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.fixture
def api(cluster: KubernetesStandIn) -> Iterator[Plain]:
    with emptied(cluster) as plain:
        yield plain


def test_a_target_file_says_what_flags_do_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "t.yaml"
    file.write_text(
        "kind: gke\ncontext: c\ntype: v6e-16\nslices: 4\nlimits: {ttl_s: 60}\nramdisk: {by: multi_tier}\n"
    )
    words = ["workload", "create", "n", "--target", str(file), "--slices", "2", "--grace", "9s", "--dry-run"]
    assert main([*words, "--docker-image", IMAGE, "--", "x"]) == 0
    spec = yaml.safe_load(capsys.readouterr().out)["spec"]
    assert (spec["ttlSecondsAfterFinished"], spec["replicatedJobs"][0]["replicas"]) == (60, 2)
    pod = spec["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] == 9
    assert "multitier-checkpoint" in json.dumps(pod["volumes"])


@pytest.fixture
def pathways(cluster: KubernetesStandIn, api: Plain, tmp_path: Path) -> Iterator[Any]:
    """Writes a target of Pathways on the cluster, whose machines come by themselves; returns its path."""

    def write(**more: Any) -> str:
        images = {"server_image": "r/server:jax_0.10.0", "proxy_image": "r/proxy_server:jax_0.10.0"}
        where = {"context": "standin", "kubeconfig": str(cluster.kubeconfig), "queue": None, "priority": None}
        parts = {"pathways": {**images, **more}, "limits": {"workload_s": 600}}
        file = tmp_path / "pathways.yaml"
        file.write_text(
            yaml.safe_dump({"kind": "gke", "type": "v5litepod-16", "slices": 2, **where, **parts})
        )
        return str(file)

    path = "/api/v1/namespaces/kube-system/configmaps"
    api.http.post(path, json={"metadata": {"name": "cluster-autoscaler-status"}}).raise_for_status()
    yield write
    api.delete(f"{path}/cluster-autoscaler-status")


def test_pathways_runs_without_a_program_until_it_is_deleted(
    api: Plain, pathways: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["workload", "create", "headless", "--target", pathways(headless=True)]
    assert main([*words, "--", "x"]) == 2
    assert "a headless Pathways runs no command" in capsys.readouterr().err
    assert main(words) == 0
    spec = api.get(f"{JOBSETS}/headless")["spec"]
    head, workers = spec["replicatedJobs"]
    pod = head["template"]["spec"]["template"]["spec"]
    assert [one["name"] for one in pod["containers"]] == ["pathways-proxy", "pathways-rm"]
    assert not (spec.get("successPolicy") or {}).get("targetReplicatedJobs") and workers["replicas"] == 2
    assert main(["workload", "delete", "headless", "--target", pathways(headless=True)]) == 0


def test_pathways_of_another_jax_or_python_than_the_program_is_refused(
    api: Plain, pathways: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store()
    push_image(
        store, "mine", "v1", config={"config": {"Env": ["PYTHON_VERSION=3.12.1", "JAX_VERSION=0.9.0"]}}
    )
    target = pathways(colocated_python_image="r/sidecar:python_3.11-jax_0.10.0")
    with serve_registry(store) as address:
        words = ["workload", "create", "n", "--target", target, "--docker-image", f"{address}/mine:v1"]
        assert main([*words, "--", "x"]) == 2
    said = capsys.readouterr().err
    assert "r/server:jax_0.10.0 has JAX 0.10.0, and the program JAX 0.9.0" in said
    assert "has Python 3.11, and the program Python 3.12" in said and not api.names(JOBSETS)


def test_a_folder_on_a_base_of_another_jax_than_pathways_is_refused_before_it_is_pushed(
    api: Plain, pathways: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    store = Store()
    push_image(store, "base", "v1", config={"config": {"Env": ["JAX_VERSION=0.9.0"]}})
    (tmp_path / "train.py").write_text("print(1)")
    with serve_registry(store) as address:
        words = ["workload", "create", "n", "--target", pathways(), "--script-dir", str(tmp_path)]
        words += ["--base-image", f"{address}/base:v1", "--repository", f"{address}/mine"]
        assert main([*words, "--", "x"]) == 2
    assert "has JAX 0.10.0, and the program JAX 0.9.0" in capsys.readouterr().err
    assert "mine" not in store.repositories and not api.names(JOBSETS)


def test_a_folder_is_put_on_a_base_and_pods_get_the_digest(
    api: Plain, cluster: KubernetesStandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store()
    push_image(store, "base", "v1")
    (tmp_path / "train.py").write_text("print(1)")
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / ".dockerignore").write_text("notes.txt\n")
    monkeypatch.chdir(tmp_path)
    words = [word for word in words_of(cluster, "layered") if word not in ("--docker-image", IMAGE)]
    with serve_registry(store) as address:
        more = ["--base-image", f"{address}/base:v1", "--repository", f"{address}/mine", "--", "python", "-V"]
        assert main([*words, *more]) == 0
    spec = api.get(f"{JOBSETS}/layered")["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    name, _, digest = spec["containers"][0]["image"].partition("@")
    assert name == f"{address}/mine" and digest in store.repository("mine").manifests
    manifest = json.loads(store.repository("mine").manifests[digest][1])
    layer = gzip.decompress(store.repository("mine").blobs[manifest["layers"][-1]["digest"]])
    assert b"app/train.py" in layer and b"notes.txt\0" not in layer


def test_an_image_that_does_not_exist_is_refused(
    api: Plain, cluster: KubernetesStandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [word for word in words_of(cluster, "n") if word not in ("--docker-image", IMAGE)]
    with serve_registry(Store()) as address:
        assert main([*words, "--docker-image", f"{address}/none:1", "--", "x"]) == 2
    assert not api.names(JOBSETS) and "none" in capsys.readouterr().err
