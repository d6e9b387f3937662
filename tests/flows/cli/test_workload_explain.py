"""`slicebench workload explain` as a user runs it, against a cluster whose pods are processes of this machine."""

from __future__ import annotations

import json
from typing import Any

import pytest

from runtime.contract import progress
from tasks.cloud.labels import LEASE
from tasks.explain.kube_rules import kube_troubles
from tasks.explain.kube_scene import KubeScene
from tasks.explain.scene import Trouble
from tasks.targets.kube_objects import created_at
from tests.cloud.kubernetes.client import JOBSETS, PODS, WORKLOADS, Plain
from tests.cloud.kubernetes.manifests import jobset
from tests.cloud.kubernetes.stand_in import KubernetesStandIn
from tests.flows.cli.workloads import failing, running
from tests.waiting import until


def test_a_failure_is_explained_with_its_first_cause_and_the_next_command(
    api: Plain, call: Any, cluster: KubernetesStandIn
) -> None:
    api.post(JOBSETS, failing("fails"))
    api.ended("fails")
    code, out, _ = call("explain", "fails")
    assert code == 0
    assert out.startswith("fails: FAILED (")
    assert "(program_failed)" in out and "container jax-tpu exited with 3" in out
    pod = next(word for word in out.split() if word.startswith("fails-slice-job-0-1-")).strip(":")
    next_ = f"next: slicebench workload logs fails --pod {pod} --context standin --kubeconfig {cluster.kubeconfig}"
    assert next_ in out
    told = json.loads(call("explain", "fails", "--json")[1])
    assert told["found"]["cause"].startswith(f"pod {pod}: container jax-tpu exited with 3")


def test_a_worker_that_the_others_of_its_run_wait_for_is_named(api: Plain, call: Any) -> None:
    first, then = (
        progress.encode(body, seq=seq, at=1.0)
        for seq, body in enumerate((progress.Started(0, 7), progress.Init("begin")), 1)
    )
    program = (
        "import os, time\n"
        f"print({first!r})\n"
        f"os.environ['JOB_COMPLETION_INDEX'] == '0' and print({then!r})\n"
        "time.sleep(120)"
    )
    api.post(JOBSETS, jobset("waits", program, slices=1, labels={LEASE: "r1-e1"}))
    running(api, "waits")
    pods = sorted(api.names(PODS, labelSelector="app=waits"))
    until(lambda: [api.text(f"{PODS}/{pod}/log").count("\n") for pod in pods] == [2, 1])
    code, out, _ = call("explain", "waits")
    assert code == 0 and "jax.distributed is not complete: worker 1 is missing, worker 0 waiting" in out


def test_an_image_that_is_not_there_is_explained(api: Plain, call: Any) -> None:
    made = jobset("noimage", slices=1, pods=1)
    pod = made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod["containers"][0]["image"] = "elsewhere/none:1"
    api.post(JOBSETS, made)
    api.eventually(PODS, lambda told: "ImagePull" in json.dumps(told))
    _, out, _ = call("explain", "noimage")
    assert "noimage: STARTING (ImagePullBackOff)" in out
    assert "the image elsewhere/none:1 cannot be pulled" in out


def test_a_selector_that_no_node_has_is_explained(api: Plain, call: Any) -> None:
    api.post(JOBSETS, jobset("nowhere", slices=1, pods=1, pod={"nodeSelector": {"kind": "none"}}))
    api.eventually(PODS, lambda told: "Unschedulable" in json.dumps(told))
    _, out, _ = call("explain", "nowhere")
    assert "nowhere: PROVISIONING (Unschedulable)" in out and "asks for nodes with kind=none" in out


def test_a_node_that_does_not_answer_is_told_before_kubernetes_says_so_of_its_pods(
    api: Plain, call: Any, cluster: KubernetesStandIn
) -> None:
    cluster.set(node_grace_s=0.1)
    cluster.tell("nodes", pools=[{"pool": "quiet", "count": 1, "labels": {"quiet": "true"}}])
    container = {"name": "jax-tpu", "image": "gcr.io/p/img:1", "command": ["sleep", "120"]}
    alone = {"containers": [container], "nodeSelector": {"quiet": "true"}}
    api.post(JOBSETS, jobset("lonely", slices=1, pods=1, pod=alone))
    running(api, "lonely", 1)
    cluster.tell("lose_node", name="quiet-0")
    silent = "Unknown"
    api.eventually(
        "/api/v1/nodes/quiet-0",
        lambda node: silent in [one["status"] for one in node["status"]["conditions"]],
    )
    cluster.calls()
    code, out, _ = call("explain", "lonely")
    assert code == 0 and "lonely: RUNNING" in out and "(node_lost)" in out
    assert "Node quiet-0 condition Ready: NodeStatusUnknown: Kubelet stopped posting node status." in out
    assert not any(
        "log" in one for one in cluster.calls()
    )  # of which the API server says so after half a minute
    api.delete(f"{JOBSETS}/lonely")
    api.delete("/api/v1/nodes/quiet-0")


def test_a_queue_that_is_missing_is_explained(api: Plain, call: Any) -> None:
    api.post(JOBSETS, jobset("queued", slices=1, pods=1, queue="nope"))
    api.eventually(WORKLOADS, lambda told: "doesn't exist" in json.dumps(told))
    _, out, _ = call("explain", "queued")
    assert "queued: QUEUED (Inadmissible" in out and "its queue nope is missing; it starts" in out
    assert "QUEUED  Inadmissible: LocalQueue nope doesn't exist" in call("list", "--status", "QUEUED")[1]


def test_why_a_queue_takes_nothing_is_said_by_what_is_behind_it(api: Plain, call: Any) -> None:
    kueue = "/apis/kueue.x-k8s.io/v1beta2"
    flavors = [{"name": "gone", "resources": [{"name": "cpu", "nominalQuota": 1}]}]
    groups = [{"coveredResources": ["cpu"], "flavors": flavors}]
    spec = {"namespaceSelector": {}, "resourceGroups": groups}
    for kind, place, name, about in (
        ("ClusterQueue", "clusterqueues", "behind", spec),
        ("LocalQueue", "namespaces/default/localqueues", "front", {"clusterQueue": "behind"}),
    ):
        made = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}}
        api.post(f"{kueue}/{place}", {**made, "spec": about})
    api.post(JOBSETS, jobset("kept", slices=1, pods=1, queue="front"))
    api.eventually(WORKLOADS, lambda told: "is inactive" in json.dumps(told))
    _, out, _ = call("explain", "kept")
    for place in ("clusterqueues/behind", "namespaces/default/localqueues/front"):
        api.delete(f"{kueue}/{place}")
    assert (
        "ClusterQueue behind condition Active: FlavorNotFound" in out and "refers to what is missing" in out
    )


@pytest.mark.parametrize("ahead_s", [-3600, 3600])
def test_how_long_something_takes_is_judged_by_the_clock_of_the_cluster(
    api: Plain, cluster: KubernetesStandIn, call: Any, monkeypatch: pytest.MonkeyPatch, ahead_s: int
) -> None:
    ages: list[float] = []

    def troubles(scene: KubeScene) -> list[Trouble]:
        ages.append(scene.now - (created_at(scene.objects.jobset) or 0.0))
        return kube_troubles(scene)

    monkeypatch.setattr("tasks.stages.workload_explained.kube_troubles", troubles)
    cluster.tell("skew", seconds=ahead_s)
    try:
        api.post(JOBSETS, jobset("fresh", slices=1, pods=1, queue="nope"))
        assert call("explain", "fresh")[0] == 0
        cluster.tell("skew", seconds=ahead_s + 5000)
        assert call("explain", "fresh")[0] == 0
    finally:
        cluster.tell("skew", seconds=0)
    assert -2 < ages[0] < 600
    assert ages[1] - ages[0] == pytest.approx(5000, abs=600)


def test_a_priority_class_that_is_missing_is_explained(api: Plain, call: Any) -> None:
    labels = {"kueue.x-k8s.io/priority-class": "urgent"}
    api.post(JOBSETS, jobset("hurried", slices=1, pods=1, queue="nope", labels=labels))
    api.eventually(JOBSETS, lambda told: told["items"])
    _, out, _ = call("explain", "hurried")
    assert "there is no priority class urgent: Kueue never queues it" in out
