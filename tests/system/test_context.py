"""On any real cluster with JobSet and Kueue: what we send is taken, runs, and is explained (make test-kubernetes)."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from flows.cli.main import main
from tasks.cloud.kubernetes import Kubernetes
from tasks.cloud.kubernetes_config import by_context
from tasks.cloud.kubernetes_errors import KubernetesError, Refused
from tasks.cloud.kubernetes_kinds import (
    CLUSTER_QUEUE,
    JOB,
    JOB_SET,
    LOCAL_QUEUE,
    NAMESPACE,
    POD,
    PRIORITY_CLASS,
    RESOURCE_FLAVOR,
    Kind,
)
from tasks.config.gke_target import GkeTargetConfig
from tasks.targets.kube_check import job_of
from tasks.targets.kube_jobset import jobset
from tasks.targets.kube_submission import Submission
from tests.tasks.config.test_gke_target import FIELDS
from tests.tasks.targets.kube_made import PATHWAYS, config, submission
from tests.tasks.targets.test_kube_agreement import REQUESTS
from tests.waiting import until

ROOT = Path(__file__).parents[2]
CONTEXT = os.environ.get("SLICEBENCH_TEST_CONTEXT", "")
IMAGE = os.environ.get("SLICEBENCH_TEST_IMAGE", "python:3.11-slim")
WORKER = os.environ.get("SLICEBENCH_TEST_WORKER", "")
SHARED = os.environ.get("SLICEBENCH_TEST_SHARED", "")
STAYS = ["python", "-c", "import time; time.sleep(300)"]

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.skipif(
        not CONTEXT,
        reason="needs SLICEBENCH_TEST_CONTEXT, a context of your kubeconfig whose cluster has JobSet and Kueue",
    ),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Kubernetes]:
    """The cluster, in a new namespace with a queue of one CPU, all of which goes at the end."""
    name = f"slicebench-test-{uuid.uuid4().hex[:6]}"
    cluster = Kubernetes(by_context(CONTEXT, namespace=name))
    made: list[tuple[Kind, dict[str, Any]]] = [
        (NAMESPACE, {"metadata": {"name": name}}),
        (
            RESOURCE_FLAVOR,
            {"metadata": {"name": name}, "spec": {"nodeLabels": {"kubernetes.io/os": "linux"}}},
        ),
        (CLUSTER_QUEUE, {"metadata": {"name": name}, "spec": _quota(name)}),
        (LOCAL_QUEUE, {"metadata": {"name": "queue"}, "spec": {"clusterQueue": name}}),
        (PRIORITY_CLASS, {"metadata": {"name": f"{name}-low"}, "value": 1}),
        (PRIORITY_CLASS, {"metadata": {"name": f"{name}-high"}, "value": 1000}),
    ]
    try:
        for kind, manifest in made:
            cluster.create(kind, manifest)
        yield cluster
    finally:
        for one in cluster.list(JOB_SET).items:
            cluster.delete(JOB_SET, one["metadata"]["name"])
        until(lambda: not cluster.list(POD).items)
        for kind, manifest in reversed(made):
            cluster.delete(kind, manifest["metadata"]["name"])


def _quota(flavor: str) -> dict[str, Any]:
    amounts = [{"name": "cpu", "nominalQuota": "1"}, {"name": "memory", "nominalQuota": "4Gi"}]
    flavors = [{"name": flavor, "resources": amounts}]
    return {
        "namespaceSelector": {},
        "preemption": {"withinClusterQueue": "LowerPriority"},
        "resourceGroups": [{"coveredResources": ["cpu", "memory"], "flavors": flavors}],
    }


@pytest.fixture
def call(cluster: Kubernetes, capsys: pytest.CaptureFixture[str]) -> Any:
    def run(command: str, *words: str, code: int = 0) -> str:
        capsys.readouterr()
        there = ("--context", CONTEXT, "--namespace", cluster.access.namespace)
        assert main(["workload", command, *words, *there]) == code
        return capsys.readouterr().out

    return run


def submit(cluster: Kubernetes, name: str, command: list[str], *, cpu: str = "100m", **fields: Any) -> None:
    """Submits a JobSet of one pod of CPUs."""
    space = cluster.access.namespace
    given = {"queue": "queue", "priority": None, **fields}
    target = config(
        context=CONTEXT, type="cpu", slices=1, nodes=1, cpu=cpu, memory="64MiB", namespace=space, **given
    )
    asked = submission(name=name, image=IMAGE, command=command)
    cluster.create(JOB_SET, jobset(target, asked))


def test_whatever_a_target_says_the_server_takes_it(cluster: Kubernetes) -> None:
    space = cluster.access.namespace
    given = [fields for pair in FIELDS.values() for fields in pair] + [{"pathways": PATHWAYS}]
    refused = []
    for number, fields in enumerate(given):
        made = jobset(config(**{**fields, "namespace": space}), submission(name=f"w{number}"))
        try:
            cluster.try_create(JOB_SET, made)
        except KubernetesError as error:
            refused.append((fields, str(error)))
    assert not refused


def test_what_agrees_with_xpk_and_the_examples_the_server_takes_with_their_pods(cluster: Kubernetes) -> None:
    examples = sorted((ROOT / "configs" / "targets").glob("gke-*.yaml"))
    given = {
        case: {"context": CONTEXT, "container_name": "jax-tpu", **fields} for case, fields in REQUESTS.items()
    }
    given |= {one.stem: yaml.safe_load(one.read_text()) for one in examples}
    refused = []
    for name, fields in given.items():
        config = GkeTargetConfig.model_validate(
            {"kind": "gke", **fields, "namespace": cluster.access.namespace}
        )
        made = jobset(config, Submission("golden", IMAGE, ["true"], secrets={"TOKEN": "x"}))
        jobs = [job_of(made, one["name"]) for one in made["spec"]["replicatedJobs"]]
        for kind, manifest in [(JOB_SET, made), *((JOB, one) for one in jobs)]:
            try:
                cluster.try_create(kind, manifest)
            except KubernetesError as error:
                refused.append((name, kind.name, str(error)))
    assert len(examples) >= 4
    assert not refused


def test_what_is_wrong_is_called_so_and_not_the_server_in_trouble(cluster: Kubernetes) -> None:
    space, right = cluster.access.namespace, config(context=CONTEXT)
    wrong = jobset(right, submission(name="wrong"))
    for change in ({"suspend": "yes"}, {"bogus": 1}, {"coordinator": {"replicatedJob": "nope"}}):
        manifest = {
            **wrong,
            "metadata": {**wrong["metadata"], "namespace": space},
            "spec": {**wrong["spec"], **change},
        }
        with pytest.raises(Refused):
            cluster.try_create(JOB_SET, manifest)
        with pytest.raises(Refused):
            cluster.apply(manifest, kind=JOB_SET)
    assert cluster.find(JOB_SET, "wrong") is None


@pytest.mark.skipif(
    not (WORKER and SHARED),
    reason="needs SLICEBENCH_TEST_WORKER, an image by slicebench image build that the cluster can pull, and "
    "SLICEBENCH_TEST_SHARED, a folder that this machine and all nodes have at the same path",
)
def test_a_whole_run_goes_through_and_leaves_nothing(cluster: Kubernetes, tmp_path: Path) -> None:
    space = cluster.access.namespace
    output, target = f"{SHARED}/{space}", tmp_path / "there.yaml"
    there = {
        "kind": "gke", "context": CONTEXT, "namespace": space, "type": "cpu", "nodes": 2, "cpu": "300m",
        "memory": "1536MiB", "image": WORKER, "queue": "queue", "priority": f"{space}-low",
        "shared": {"directory": SHARED, "host_path": SHARED},
    }  # fmt: skip
    target.write_text(yaml.safe_dump(there))
    words = ["--target", str(target), "--output", output, "--run-id", "whole", "--set", "num_repeats=1"]
    assert main(["run", "quickstart", *words, "--direct"]) == 0
    assert Path(output, "whole", "report.html").exists()
    assert cluster.list(JOB_SET).items == []
    until(lambda: not cluster.list(POD).items)


def test_a_workload_runs_and_goes(cluster: Kubernetes, call: Any) -> None:
    submit(cluster, "runs", ["python", "-u", "-c", "print('it runs')"])
    until(lambda: "SUCCEEDED" in call("list", "--filter-by-job", "^runs$"))
    assert "it runs" in call("logs", "runs")
    call("delete", "runs", "--force")
    assert cluster.find(JOB_SET, "runs") is None
    assert not cluster.list(POD, labels="jobset.sigs.k8s.io/jobset-name=runs").items


@pytest.mark.parametrize(
    ("name", "fields", "state", "why"),
    [
        ("nowhere", {"queue": "absent"}, "QUEUED", "its queue absent is missing"),
        ("large", {"cpu": "3"}, "QUEUED", "it never fits"),
        ("unknown", {"priority": "absent"}, "QUEUED", "there is no priority class absent"),
        ("imageless", {}, "STARTING", "image"),
    ],
)
def test_what_keeps_a_workload_is_told(
    cluster: Kubernetes, call: Any, name: str, fields: dict[str, Any], state: str, why: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    if name == "imageless":
        monkeypatch.setattr(f"{__name__}.IMAGE", "registry.invalid/there-is-none:1")
    submit(cluster, name, STAYS, **fields)
    until(lambda: why in call("explain", name))
    assert state in call("explain", name)
    call("delete", name, "--force")


def test_a_higher_priority_takes_the_place(cluster: Kubernetes, call: Any) -> None:
    low, high = (f"{cluster.access.namespace}-{one}" for one in ("low", "high"))
    submit(cluster, "first", STAYS, cpu="800m", priority=low)
    until(lambda: "RUNNING" in call("list", "--filter-by-job", "^first$"))
    submit(cluster, "second", STAYS, cpu="800m", priority=high)
    until(lambda: "PREEMPTED" in call("list", "--filter-by-job", "^first$"))
    assert "it was preempted" in call("explain", "first")
    until(lambda: "RUNNING" in call("list", "--filter-by-job", "^second$"))
    call("delete", "second", "--force")
    until(lambda: "RUNNING" in call("list", "--filter-by-job", "^first$"))
    call("delete", "first", "--force")
