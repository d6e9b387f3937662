"""Clusters with something inside: JobSet, Kueue and the queue put in, nodes counted, idle slices found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.contract.errors import BadInput
from tasks.cloud.kubernetes import Kubernetes
from tasks.cloud.kubernetes_gke import access_of
from tasks.cloud.kubernetes_kinds import CLUSTER_QUEUE, JOB_SET, POD
from tasks.leases.lease import State
from tasks.leases.ledger import latest
from tasks.stages.cluster_inside import Inside, Nodes, count
from tasks.stages.cluster_standing import Office, describe, existing
from tasks.stages.clusters import Declined, create, delete, resize
from tasks.targets.cluster_plan import ClusterPlan
from tasks.targets.kube_install import NotReady, Waits
from tests.cloud.container.leasing import a_ledger, config, office
from tests.cloud.container.running import Gke
from tests.cloud.kubernetes.manifests import TPU, jobset
from tests.cloud.kubernetes.releases import Releases
from tests.waiting import PATIENCE_S, until

SOON = Waits(ready_s=PATIENCE_S, answers_s=PATIENCE_S, look_s=0.02)


@pytest.fixture(scope="module")
def releases() -> Iterator[Releases]:
    with Releases.served() as served:
        yield served


@pytest.fixture
def empty(gke: Gke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Gke:
    """GKE, in whose clusters neither JobSet nor Kueue is installed."""
    monkeypatch.setenv("SLICEBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(gke.credentials()))
    gke.set(kubernetes={"without": ["jobset", "kueue"]})
    return gke


def desk(said: Callable[[str], None] = lambda line: None, **waits: float) -> Office:
    return office(said, inside=Inside(said, Waits(**{**SOON.__dict__, **waits})))


def quota(api: Kubernetes) -> dict[str, str]:
    [group, *_] = api.get(CLUSTER_QUEUE, "cluster-queue")["spec"]["resourceGroups"]
    return {one["name"]: one["resources"][0]["nominalQuota"] for one in group["flavors"][:1]}


def test_a_cluster_is_set_up_counted_and_shrunk_from_its_idle_slice(empty: Gke, releases: Releases) -> None:
    wanted = config(slices=2, queueing=releases.queueing())
    told = create(desk(), "mine", wanted).slices
    assert [(one.expected, one.present, one.healthy, one.used) for one in told] == [(4, 4, 4, 0)] * 2
    api = Kubernetes(access_of(existing(office(), "mine")))
    assert quota(api) == {"v5e-4x4": "32"}

    on = {**TPU, "cloud.google.com/gke-nodepool": "np-0"}
    work = jobset("w", "import time; time.sleep(60)", slices=1, pods=4, pod={"nodeSelector": on})
    api.create(JOB_SET, work)
    until(lambda: len(api.list(POD, fields="status.phase=Running").items) == 4)
    assert [one.used for one in describe(desk(), "mine").slices] == [4, 0]

    told_of: list[str] = []
    with pytest.raises(Declined):
        delete(desk(), "mine", agree=lambda going_on: told_of.extend(going_on) or False)  # type: ignore[func-returns-value]
    assert told_of == ["default/w"]

    plans: list[ClusterPlan] = []
    resize(desk(), "mine", 1, agree=lambda planned: plans.append(planned) or True)  # type: ignore[func-returns-value]
    assert "np-1 (one slice too many, idle)" in str(plans[0])
    assert sorted(empty.pools("mine")) == ["cpu", "np-0"]
    assert quota(api) == {"v5e-4x4": "16"}


def test_what_is_added_to_somebody_else_s_cluster_has_its_own_queue_and_takes_it_along(
    empty: Gke, releases: Releases
) -> None:
    """JobSet and Kueue stay, for others may use them by then; what was there before stays in any case."""
    key = empty.put("mine", pools=[{"name": "theirs", "config": {"machine_type": "e2-standard-16"}}])
    until(lambda: "kubernetes" in empty.store.read()["clusters"][key])
    cluster = empty.kubernetes("mine")
    said: list[str] = []
    create(desk(said.append), "mine", config(queueing=releases.queueing()))
    objects = cluster.inventory()["objects"]
    [queue] = objects["clusterqueues.kueue.x-k8s.io"]
    assert objects["localqueues.kueue.x-k8s.io"] == [f"default/{queue}"]
    assert any(f"by queue {queue}" in line for line in said), said
    resize(desk(), "mine", 2)
    api = Kubernetes(access_of(existing(office(), "mine")))
    [group] = api.get(CLUSTER_QUEUE, queue)["spec"]["resourceGroups"]
    assert [one["resources"][0]["nominalQuota"] for one in group["flavors"]] == ["32"]
    delete(desk(), "mine")
    left = cluster.inventory()["objects"]
    assert not [one for one in left if one.partition(".")[0].endswith(("queues", "classes", "flavors"))]
    assert "deployments.apps" in left
    assert empty.inventory() == [key, f"{key}/nodePools/theirs"]


def test_manifests_that_are_not_what_they_should_be_stop_it_before_anything_is_made(
    empty: Gke, releases: Releases
) -> None:
    wrong = {**releases.queueing(), "kueue": {**releases.queueing()["kueue"], "sha256": "0" * 64}}
    with pytest.raises(BadInput, match=f"and not {'0' * 64}: nothing was applied"):
        create(desk(), "mine", config(queueing=wrong))
    assert empty.mutations() == []


def test_a_cluster_whose_webhook_never_answers_is_given_back(empty: Gke, releases: Releases) -> None:
    empty.set(
        kubernetes={
            "without": ["jobset", "kueue"],
            "faults": [
                {"verb": "create", "kind": "jobsets", "action": "error", "code": 500, "times": 10_000}
            ],
        }
    )
    with pytest.raises(NotReady, match="the webhooks do not answer"):
        create(desk(answers_s=0.3), "mine", config(queueing=releases.queueing()))
    assert empty.inventory() == []
    lease = latest(a_ledger(), "cluster-mine_proj")
    assert lease is not None and lease.state is State.GONE


def test_what_cannot_be_looked_into_is_not_known(empty: Gke, releases: Releases) -> None:
    empty.set(kubernetes=None)
    said: list[str] = []
    create(office(), "mine", config(slices=1))
    assert [one.used for one in describe(desk(said.append), "mine").slices] == [None]
    assert any("what is inside cluster mine cannot be seen" in one for one in said)


def node(name: str, pool: str, *, ready: str = "True") -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {"cloud.google.com/gke-nodepool": pool}},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }


def pod(on: str, *owners: str) -> dict[str, Any]:
    return {"metadata": {"ownerReferences": [{"kind": one} for one in owners]}, "spec": {"nodeName": on}}


def test_nodes_are_used_by_what_is_not_on_every_node() -> None:
    nodes = [node("a", "p"), node("b", "p", ready="Unknown"), node("c", "q")]
    pods = [pod("a", "DaemonSet"), pod("c", "Node"), pod("b", "Job"), pod("b")]
    assert count(nodes, pods) == {"p": Nodes(2, 1, 1), "q": Nodes(1, 1, 0)}
