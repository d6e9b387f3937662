"""JobSet, Kueue and the queue are put into a stand-in that has none: once, again, later, and with things in the way."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from runtime.contract.errors import BadInput
from tasks.cloud.kubernetes import Kubernetes
from tasks.cloud.kubernetes_config import by_context
from tasks.cloud.kubernetes_kinds import (
    CLUSTER_QUEUE,
    DEPLOYMENT,
    JOB_SET,
    LOCAL_QUEUE,
    PRIORITY_CLASS,
    RESOURCE_FLAVOR,
)
from tasks.cloud.labels import labels_for
from tasks.cloud.timing import Timing
from tasks.config.accelerators import MACHINE_LABEL, accelerator
from tasks.config.cluster import ClusterConfig
from tasks.targets.kube_controllers import JOBSET, KUEUE
from tasks.targets.kube_install import NotReady, Waits, await_ready, fetched, probe, set_up
from tasks.targets.kube_queues import MANAGED
from tasks.targets.kube_room import Held
from tests.cloud.kubernetes.manifests import TPU, jobset
from tests.cloud.kubernetes.releases import Releases, release, written
from tests.cloud.kubernetes.stand_in import KubernetesStandIn, tpu_pool
from tests.waiting import PATIENCE_S, until

SOON = Waits(ready_s=PATIENCE_S, answers_s=PATIENCE_S, look_s=0.02)
NODES = [
    {"pool": "cpu", "count": 2, "labels": {MACHINE_LABEL: "e2-standard-16"}},
    tpu_pool("np-0", *TPU.values(), hosts=4),
]


@pytest.fixture(scope="module")
def releases() -> Iterator[Releases]:
    with Releases.served() as served:
        yield served


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[KubernetesStandIn]:
    with KubernetesStandIn.started(tmp_path, nodes=NODES, without=("jobset", "kueue")) as started:
        yield started


@pytest.fixture
def kube(cluster: KubernetesStandIn, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Kubernetes:
    monkeypatch.setenv("SLICEBENCH_HOME", str(tmp_path / "home"))
    return Kubernetes(
        by_context("standin", str(cluster.kubeconfig)), timing=Timing(60.0, PATIENCE_S, 0.02, 0.2)
    )


class Place:
    """A cluster that is set up, and what was said."""

    def __init__(self, kube: Kubernetes, releases: Releases) -> None:
        self.kube, self.releases = kube, releases
        self.said: list[str] = []

    def set_up(self, slices: int = 1, *, waits: Waits = SOON, queueing: Any = None, **more: Any) -> None:
        told = {**(queueing or self.releases.queueing()), **more}
        config = ClusterConfig.model_validate(
            {"zone": "us-east5-b", "type": "v5litepod-16", "queueing": told}
        )
        self.said.clear()
        held = [Held(accelerator("v5litepod-16"), 4 * slices)] if slices else []
        held.append(Held(accelerator("e2-standard-16-1"), 4, common=True))
        set_up(self.kube, held, config, self.said.append, patience=waits)

    def told(self, words: str) -> bool:
        return any(words in one for one in self.said)

    def quota(self) -> dict[str, str]:
        spec = self.kube.get(CLUSTER_QUEUE, "cluster-queue")["spec"]
        return {
            f"{flavor['name']} {one['name']}": one["nominalQuota"]
            for group in spec["resourceGroups"]
            for flavor in group["flavors"]
            for one in flavor["resources"]
        }


@pytest.fixture
def place(kube: Kubernetes, releases: Releases) -> Place:
    return Place(kube, releases)


def changing(cluster: KubernetesStandIn) -> list[str]:
    return [one for one in cluster.calls() if one.split()[0] not in ("get", "list", "watch")]


def test_an_empty_cluster_gets_all_and_a_workload_runs_in_it(
    place: Place, cluster: KubernetesStandIn
) -> None:
    place.set_up()
    assert place.told("installing JobSet v0.12.0 (SHA-256 ")
    assert place.told("installing Kueue v0.19.2")
    assert place.quota()["v5e-4x4 google.com/tpu"] == "16"
    assert place.quota()["machines cpu"] == str(64 * 4), "two CPU machines are there, and may become four"
    assert {one["metadata"]["name"] for one in place.kube.list(PRIORITY_CLASS).items} >= {
        "very-low",
        "very-high",
    }
    kueue = place.kube.get(DEPLOYMENT, KUEUE.deployment, KUEUE.namespace)
    assert kueue["metadata"]["annotations"]["slicebench/manifests"].startswith("v0.19.2 ")
    made = jobset("w", "print(1)", slices=1, pods=4, queue="multislice-queue")
    place.kube.create(JOB_SET, made)
    _until_done(place.kube, "w")


def _until_done(kube: Kubernetes, name: str) -> None:
    until(lambda: kube.get(JOB_SET, name).get("status", {}).get("terminalState") == "Completed")


def test_again_changes_nothing_and_another_size_only_what_depends_on_it(
    place: Place, cluster: KubernetesStandIn
) -> None:
    place.set_up()
    cluster.calls()
    asked = len(place.releases.asked)
    before = place.kube.get(CLUSTER_QUEUE, "cluster-queue")["metadata"]["resourceVersion"]
    place.set_up()
    assert place.said == []
    assert len(place.releases.asked) == asked, "what is known by its hash is not fetched again"
    assert place.kube.get(CLUSTER_QUEUE, "cluster-queue")["metadata"]["resourceVersion"] == before
    assert not [one for one in changing(cluster) if "customresource" in one or "deployments" in one]
    place.set_up(slices=200)
    limits = place.kube.get(DEPLOYMENT, KUEUE.deployment, KUEUE.namespace)["spec"]["template"]["spec"][
        "containers"
    ]
    assert limits[0]["resources"]["limits"]["memory"] == "25600Mi"
    assert place.quota()["v5e-4x4 google.com/tpu"] == str(16 * 200)
    labels = {**MANAGED, **labels_for("other-e1", "a-ledger")}
    place.kube.apply({"metadata": {"name": "a-runs-own", "labels": labels}, "spec": {}}, kind=RESOURCE_FLAVOR)
    place.set_up(slices=0)
    assert place.told("taking away the flavor v5e-4x4")
    left = sorted(one["metadata"]["name"] for one in place.kube.list(RESOURCE_FLAVOR).items)
    assert left == ["a-runs-own", "machines"]


def test_what_is_down_comes_up_again_kueue_first(place: Place) -> None:
    place.set_up()
    for part in (JOBSET, KUEUE):
        where = DEPLOYMENT.path(part.namespace, part.deployment)
        patched = httpx.patch(
            f"{place.kube.access.server}{where}?fieldManager=kubectl",
            json={"spec": {"replicas": 0}},
            headers={"Content-Type": "application/merge-patch+json"},
        )
        assert patched.status_code == 200
    until(lambda: _down(place.kube))
    place.set_up()
    place.kube.create(JOB_SET, jobset("w", "print(1)", slices=1, pods=4, queue="multislice-queue"))
    _until_done(place.kube, "w")


def _down(kube: Kubernetes) -> bool:
    try:
        probe(kube, lambda _: None, Waits(answers_s=0.0))
    except NotReady:
        return True
    return False


def test_a_wrong_hash_stops_it_before_anything_is_applied(place: Place, cluster: KubernetesStandIn) -> None:
    queueing = place.releases.queueing()
    queueing["kueue"]["sha256"] = "0" * 64
    config = ClusterConfig.model_validate({"zone": "us-east5-b", "queueing": queueing})
    with pytest.raises(BadInput, match=f"and not {'0' * 64}: nothing was applied"):
        fetched(config.queueing)
    with pytest.raises(BadInput, match="nothing was applied"):
        place.set_up(queueing=queueing)
    assert changing(cluster) == []


def test_what_others_installed_is_used_as_it_is(place: Place, cluster: KubernetesStandIn) -> None:
    for name, version in (("jobset", "v0.10.1"), ("kueue", "v0.17.1")):
        for one in release(name, version):
            place.kube.apply(one)
    place.set_up()
    assert place.told(
        "JobSet v0.10.1 is there, and was installed by others: it stays as it is; v0.12.0 was asked for"
    )
    deployment = place.kube.get(DEPLOYMENT, JOBSET.deployment, JOBSET.namespace)
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"].endswith(":v0.10.1")
    assert place.quota()["v5e-4x4 google.com/tpu"] == "16"


def test_a_controller_that_a_chart_installed_gets_no_second_beside_it(place: Place) -> None:
    """JobSet's chart has names of its own: two of them would make each workload's Jobs."""
    for one in release("jobset", "v0.11.0"):
        if one["kind"] == "Deployment":
            labels = {"app.kubernetes.io/name": "jobset", "app.kubernetes.io/component": "controller"}
            one["metadata"] |= {"name": "jobset-controller", "labels": labels}
        place.kube.apply(one)
    place.set_up()
    assert place.told(
        "JobSet v0.11.0 is there as Deployment jobset-system/jobset-controller, and was installed by others"
    )
    there = [one["metadata"]["name"] for one in place.kube.list(DEPLOYMENT, JOBSET.namespace).items]
    assert there == ["jobset-controller"]


def test_ours_goes_to_a_later_version_and_not_back(place: Place, releases: Releases) -> None:
    place.set_up()
    releases.put("kueue", "v0.20.0")
    place.set_up(queueing=releases.queueing(kueue="v0.20.0"))
    assert place.told("taking Kueue from v0.19.2 to v0.20.0")
    place.set_up()
    assert place.told("Kueue v0.20.0 is there: it is not taken back to v0.19.2")


def test_a_queue_of_others_stays_as_it_is(place: Place) -> None:
    for name in ("jobset", "kueue"):
        for one in release(name):
            place.kube.apply(one)
    flavor = {"metadata": {"name": "2xv5litepod-16"}, "spec": {}}
    quota = [{"name": "2xv5litepod-16", "resources": [{"name": "google.com/tpu", "nominalQuota": 32}]}]
    group = {"coveredResources": ["google.com/tpu"], "flavors": quota}
    queue = {
        "metadata": {"name": "cluster-queue"},
        "spec": {"namespaceSelector": {}, "resourceGroups": [group]},
    }
    await_ready(place.kube, KUEUE, SOON)
    probe(place.kube, place.said.append, SOON)
    place.kube.apply(flavor, kind=RESOURCE_FLAVOR)
    place.kube.apply(queue, kind=CLUSTER_QUEUE)
    place.set_up()
    assert place.told("ClusterQueue cluster-queue was not made by slicebench: its quota stays as it is")
    assert place.quota() == {"2xv5litepod-16 google.com/tpu": 32}
    assert place.kube.get(LOCAL_QUEUE, "multislice-queue")["spec"]["clusterQueue"] == "cluster-queue"


def test_what_others_changed_of_ours_is_taken_over_and_told(place: Place) -> None:
    place.set_up()
    changed = {"spec": {"preemption": {"withinClusterQueue": "Never"}}}
    where = f"{place.kube.access.server}{CLUSTER_QUEUE.path(None, 'cluster-queue')}?fieldManager=kubectl-edit"
    patched = httpx.patch(where, json=changed, headers={"Content-Type": "application/merge-patch+json"})
    assert patched.status_code == 200
    place.set_up()
    assert place.told("taking over what others changed of ClusterQueue cluster-queue")
    assert place.told("kubectl-edit")
    assert (
        place.kube.get(CLUSTER_QUEUE, "cluster-queue")["spec"]["preemption"]["withinClusterQueue"]
        == "LowerPriority"
    )


def test_webhooks_are_waited_for_and_told(place: Place, cluster: KubernetesStandIn) -> None:
    cluster.set(webhook_delay_s=0.5)
    place.set_up()
    assert place.told("waiting for the webhooks: cannot make ResourceFlavor slicebench-trial (dry run)")


def test_a_webhook_that_never_answers_is_said_with_its_reason(
    place: Place, cluster: KubernetesStandIn
) -> None:
    cluster.set(webhook_delay_s=600.0)
    with pytest.raises(NotReady, match="do not answer after 0 s: .*connection refused"):
        place.set_up(waits=Waits(PATIENCE_S, 0.1, 0.02))


def test_a_controller_that_does_not_come_up_is_said_with_its_pods_reason(
    place: Place, cluster: KubernetesStandIn
) -> None:
    cluster.set(images=["*jobset*"])
    why = r"Kueue is not ready after \d+ s: pod kueue-controller-manager-\S+: (ErrImagePull|ImagePullBackOff)"
    for ready_s in (1.0, 5.0, 25.0, 125.0):  # JobSet, which comes first, has as long as Kueue
        with pytest.raises(NotReady) as told:
            place.set_up(waits=Waits(ready_s, PATIENCE_S, 0.02))
        if re.search(why, str(told.value)):
            break
    assert re.search(why, str(told.value))
    cluster.set(images=["*"])
    place.set_up()


def test_nothing_is_done_where_nothing_is_wanted(place: Place, cluster: KubernetesStandIn) -> None:
    place.set_up(install=False)
    assert cluster.calls() == []


def test_releases_that_are_no_manifests_are_refused(place: Place, releases: Releases) -> None:
    releases.put(
        "kueue", "v0.30.0", written([{"apiVersion": "v1", "kind": "Odd", "metadata": {"name": "x"}}])
    )
    config = ClusterConfig.model_validate(
        {"zone": "us-east5-b", "queueing": releases.queueing(kueue="v0.30.0")}
    )
    with pytest.raises(BadInput, match="holds no Deployment kueue-controller-manager"):
        fetched(config.queueing)
