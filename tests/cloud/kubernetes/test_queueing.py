"""Shows Kueue: why a workload waits, in its words; pauses; preemption; what is not there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cloud.kubernetes.manifests import TPU, cluster_queue, jobset, kueue
from tests.cloud.kubernetes.space import Space
from tests.cloud.kubernetes.stand_in import KubernetesStandIn
from tests.waiting import until

_STAYS = "import time; time.sleep(60)"


@pytest.fixture
def queue(api: Space) -> Iterator[str]:
    """A LocalQueue with 8 chips, as many as one slice here has."""
    api.post("resourceflavors", kueue("ResourceFlavor", "v5e", nodeLabels=TPU))
    api.post("clusterqueues", cluster_queue("cq", 8))
    api.post("localqueues", kueue("LocalQueue", "lq", clusterQueue="cq"))
    yield "lq"
    for name in api.names("jobsets"):  # which hold its quota, and so itself
        api.delete("jobsets", name)
    for kind, name in (("clusterqueues", "cq"), ("resourceflavors", "v5e")):
        api.delete(kind, name)
        api.gone(kind, name)


def _workload(api: Space, name: str) -> dict[str, Any]:
    uid = api.get("jobsets", name)["metadata"]["uid"]
    found = api.get("workloads", labelSelector=f"kueue.x-k8s.io/job-uid={uid}")["items"]
    return dict(found[0]) if found else {}


def _condition(api: Space, name: str, kind: str) -> tuple[str, str, str]:
    listed = _workload(api, name).get("status", {}).get("conditions", [])
    found = [(one["status"], one["reason"], one["message"]) for one in listed if one["type"] == kind]
    return found[0] if found else ("", "", "")


def _waits(api: Space, name: str, reason: str, words: str) -> None:
    until(lambda: _condition(api, name, "QuotaReserved")[:2] == ("False", reason))
    assert words in _condition(api, name, "QuotaReserved")[2]


def test_a_selector_that_no_flavor_has(api: Space, queue: str) -> None:
    other = {**TPU, "cloud.google.com/gke-tpu-topology": "8x8"}
    api.post("jobsets", jobset("a", slices=1, queue=queue, pod={"nodeSelector": other}))
    _waits(api, "a", "NoMatchingFlavor", "flavor v5e doesn't match node affinity")


def test_a_resource_that_the_queue_does_not_cover(api: Space, queue: str) -> None:
    made = jobset("a", slices=1, queue=queue)
    container = made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]
    container["resources"]["requests"] = {"cpu": "100m"}
    api.post("jobsets", made)
    _waits(api, "a", "NoMatchingFlavor", "resource cpu unavailable in ClusterQueue")


def test_queues_that_do_not_exist_or_are_held(api: Space, queue: str) -> None:
    api.post("localqueues", kueue("LocalQueue", "lost", clusterQueue="nope"))
    api.post("jobsets", jobset("a", slices=1, queue="lost"))
    _waits(api, "a", "Misconfigured", "ClusterQueue nope doesn't exist")
    api.patch("clusterqueues", "cq", {"spec": {"stopPolicy": "Hold"}})
    api.post("jobsets", jobset("b", slices=1, queue=queue))
    _waits(api, "b", "Suspended", "ClusterQueue cq is inactive")
    api.patch("clusterqueues", "cq", {"spec": {"stopPolicy": "None"}})
    assert api.ended("b")["status"]["terminalState"] == "Completed"


def test_a_queue_that_is_held_leaves_what_it_said_and_one_that_drains_takes_back(
    api: Space, queue: str
) -> None:
    quick = {"terminationGracePeriodSeconds": 1}
    api.post("jobsets", jobset("a", _STAYS, slices=1, queue=queue, pod=quick))
    until(lambda: _condition(api, "a", "PodsReady")[0] == "True")
    api.post("jobsets", jobset("b", _STAYS, slices=1, queue=queue, pod=quick))
    said = "insufficient unused quota for google.com/tpu in flavor v5e, 8 more needed"
    _waits(api, "b", "WaitingForQuota", said)
    api.patch("clusterqueues", "cq", {"spec": {"stopPolicy": "Hold"}})
    api.eventually("clusterqueues", "cq", lambda told: told["status"]["conditions"][0]["reason"] == "Stopped")
    _waits(api, "b", "WaitingForQuota", said)
    for kind, name in (("ClusterQueue", "cq"), ("LocalQueue", queue)):
        api.patch(f"{kind.lower()}s", name, {"spec": {"stopPolicy": "HoldAndDrain"}})
        until(lambda: _condition(api, "a", "Requeued")[:2] == ("False", f"{kind}Stopped"))  # noqa: B023
        assert _condition(api, "a", "Evicted")[:2] == ("True", f"{kind}Stopped")
        _waits(api, "b", "Suspended", f"{kind} {name} is inactive")
        api.patch(f"{kind.lower()}s", name, {"spec": {"stopPolicy": "None"}})
        until(lambda: _condition(api, "a", "Requeued")[:2] == ("True", f"{kind}Restarted"))  # noqa: B023
        until(lambda: _condition(api, "a", "PodsReady")[0] == "True")
    api.delete("clusterqueues", "cq")
    _waits(api, "b", "Suspended", "ClusterQueue cq is inactive")
    api.delete("jobsets", "a")
    _waits(api, "b", "Misconfigured", "ClusterQueue cq doesn't exist")
    api.post("clusterqueues", cluster_queue("cq", 8))


def test_kueue_as_it_comes_gives_two_reasons_for_all(
    cluster: KubernetesStandIn, api: Space, queue: str
) -> None:
    cluster.set(kueue_reasons=False)
    api.post("jobsets", jobset("a", slices=1, queue="nope"))
    _waits(api, "a", "Inadmissible", "LocalQueue nope doesn't exist")
    api.post("jobsets", jobset("b", slices=9, queue=queue))
    _waits(api, "b", "Pending", "> maximum capacity")
    assert not _condition(api, "b", "Admitted")[0]


def test_without_a_queue_it_runs_outside_all_quota(api: Space) -> None:
    api.post("jobsets", jobset("a", slices=1))
    assert api.ended("a")["status"]["conditions"][0]["type"] == "Completed"
    assert api.names("workloads") == []


def test_a_workload_is_paused_and_goes_on(api: Space, queue: str) -> None:
    api.post("jobsets", jobset("a", _STAYS, slices=1, queue=queue, pod={"terminationGracePeriodSeconds": 1}))
    until(lambda: _condition(api, "a", "PodsReady")[:2] == ("True", "Started"))
    name = _workload(api, "a")["metadata"]["name"]
    api.patch("workloads", name, {"spec": {"active": False}})
    until(lambda: _condition(api, "a", "QuotaReserved")[:2] == ("False", "Deactivated"))
    assert _condition(api, "a", "Evicted")[:2] == ("True", "Deactivated")
    assert _condition(api, "a", "Requeued")[:2] == ("False", "Deactivated")
    api.gone("pods")
    api.patch("workloads", name, {"spec": {"active": True}})
    until(lambda: _condition(api, "a", "PodsReady")[0] == "True")
    assert _condition(api, "a", "Requeued")[:2] == ("True", "Reactivated")


def test_the_less_important_one_gives_way_and_runs_again_from_its_start(
    cluster: KubernetesStandIn, api: Space, queue: str
) -> None:
    for name, value in (("low", 250), ("high", 750)):
        api.post("workloadpriorityclasses", {**kueue("WorkloadPriorityClass", name), "value": value})
    label, quick = "kueue.x-k8s.io/priority-class", {"terminationGracePeriodSeconds": 1}
    api.post("jobsets", jobset("low", _STAYS, slices=1, queue=queue, labels={label: "low"}, pod=quick))
    until(lambda: _condition(api, "low", "PodsReady")[0] == "True")
    first = api.names("pods")
    api.post("jobsets", jobset("high", _STAYS, slices=1, queue=queue, labels={label: "high"}, pod=quick))
    until(lambda: _condition(api, "high", "Admitted")[0] == "True")
    _waits(
        api,
        "low",
        "WaitingForQuota",
        "insufficient unused quota for google.com/tpu in flavor v5e, 8 more needed",
    )
    assert _condition(api, "low", "Evicted")[:2] == ("True", "Preempted")
    assert _condition(api, "low", "Requeued")[:2] == ("True", "Preempted")
    stats = _workload(api, "low")["status"]["schedulingStats"]["evictions"]
    assert [(one["reason"], one["count"]) for one in stats] == [("Preempted", 1)]
    api.delete("jobsets", "high")
    until(lambda: _condition(api, "low", "Evicted")[:2] == ("False", "QuotaReserved"))
    assert _condition(api, "low", "Evicted")[2].startswith("Previously: Preempted to accommodate a workload")
    until(lambda: _condition(api, "low", "PodsReady")[0] == "True")
    assert not set(first) & set(api.names("pods", labelSelector="app=low"))
    assert api.get("jobsets", "low")["status"]["restarts"] == 0
    for name in ("low", "high"):
        api.delete("workloadpriorityclasses", name)


def test_an_unknown_class_is_waited_for(api: Space, queue: str) -> None:
    label = {"kueue.x-k8s.io/priority-class": "nope"}
    api.post("jobsets", jobset("a", slices=1, queue=queue, labels=label))
    until(lambda: "WorkloadPriorityClassNotFound" in dict(api.events("a")))
    assert api.names("workloads") == []


def test_installed_later_kueue_refuses_until_it_is_ready(tmp_path: Any) -> None:
    with KubernetesStandIn.started(tmp_path, without=("kueue",), webhook_delay_s=0.3) as cluster:
        api = Space(cluster.url)
        assert api.http.get(api.path("clusterqueues")).status_code == 404
        for plural, kind in (("resourceflavors", "ResourceFlavor"), ("workloads", "Workload")):
            spec = {
                "group": "kueue.x-k8s.io",
                "scope": "Cluster",
                "names": {"kind": kind, "plural": plural},
                "versions": [
                    {
                        "name": "v1beta2",
                        "served": True,
                        "storage": True,
                        "schema": {"openAPIV3Schema": {"type": "object"}},
                    }
                ],
            }
            meta = {"name": f"{plural}.kueue.x-k8s.io"}
            definition = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
            api.post("customresourcedefinitions", {**definition, "metadata": meta, "spec": spec})
        flavor = kueue("ResourceFlavor", "probe")
        assert "connection refused" in api.post("resourceflavors", flavor, 500, dryRun="All")["message"]
        api.post(
            "namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kueue-system"}}
        )
        api.space = "kueue-system"
        meta = {"name": "kueue-controller-manager"}
        template = {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "m", "image": "r/kueue:v0.19.2"}]},
        }
        spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
        api.post(
            "deployments", {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}
        )
        api.eventually(
            "deployments", meta["name"], lambda told: told.get("status", {}).get("availableReplicas") == 1
        )
        until(lambda: api.http.post(api.path("resourceflavors"), json=flavor).status_code == 201)
