"""Runs on clusters of GKE by name: used where they are there, made where they are missing; what was made goes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.contract.errors import ExitCode
from tasks.cloud.kubernetes import Kubernetes
from tasks.cloud.kubernetes_config import by_context
from tasks.cloud.kubernetes_kinds import CLUSTER_QUEUE, JOB_SET, LOCAL_QUEUE, RESOURCE_FLAVOR
from tasks.leases.lease import State
from tasks.stages.run import exit_code_of
from tasks.stages.teardown import teardown
from tests.cloud.container.hurried import pool_request
from tests.cloud.container.running import Gke
from tests.cloud.kubernetes.stand_in import KubernetesStandIn
from tests.tasks.targets.gke_runs import RUN, Pods, hold, images, play
from tests.waiting import until

PLACE = {"name": "mine", "location": "us-east5-b"}
THERE: Any = {"make": {"queueing": {"install": False}}}
"""In clusters of these tests JobSet and Kueue are there from the beginning."""


@pytest.fixture
def pods(gke: Gke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pods]:
    monkeypatch.setenv("SLICEBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(gke.credentials()))
    (tmp_path / "out").mkdir()
    gke.set(kubernetes=images(tmp_path))
    yield Pods(None, tmp_path / "out")


def slice_pool(name: str = "theirs", **more: Any) -> dict[str, Any]:
    """Returns a request for the node pool of a slice of v5litepod-8."""
    pool = {**pool_request(name), "initial_node_count": 2, **more}
    return {**pool, "placement_policy": {"type": "COMPACT", "tpu_topology": "2x4"}}


def test_a_cluster_that_is_there_is_used_and_stays(pods: Pods, gke: Gke) -> None:
    key = gke.put("mine", location="us-east5-b", pools=[slice_pool()])
    until(lambda: "kubernetes" in gke.store.read()["clusters"][key])
    run, holding = pods.run(cluster={**PLACE, "create": "never"}), hold(RUN)
    try:
        outcome = play(run, holding)
    finally:
        release = teardown(run, holding)
    assert exit_code_of(outcome) == ExitCode.DONE
    assert release.lease.state is State.GONE
    scopes = [ref.scope for ref in release.lease.resources if ref.kind == "jobset"]
    assert [scope.partition("#")[0] for scope in scopes] == ["cluster mine"]
    assert gke.inventory() == [key, f"{key}/nodePools/theirs"]
    assert gke.mutations() == []
    gke.kubernetes("mine").assert_nothing_left(
        but=("nodes", "namespaces", "serviceaccounts", "priorityclasses")
    )


def their_queue(cluster: KubernetesStandIn) -> None:
    """Makes a queue of others, which has quota for their slice of 8 chips alone."""
    api = Kubernetes(by_context("standin", str(cluster.kubeconfig)))
    resources = [{"name": "google.com/tpu", "nominalQuota": "8"}, {"name": "cpu", "nominalQuota": "8"}]
    group = {
        "coveredResources": ["google.com/tpu", "cpu"],
        "flavors": [{"name": "theirs", "resources": resources}],
    }
    for kind, name, spec in (
        (RESOURCE_FLAVOR, "theirs", {}),
        (CLUSTER_QUEUE, "theirs", {"namespaceSelector": {}, "resourceGroups": [group]}),
        (LOCAL_QUEUE, "multislice-queue", {"clusterQueue": "theirs"}),
    ):
        api.apply({"metadata": {"name": name}, "spec": spec}, kind=kind)


def test_what_is_added_to_a_cluster_with_a_queue_of_others_has_its_own(pods: Pods, gke: Gke) -> None:
    """Theirs has no quota for it; ours leads to our nodes alone, and goes with them. Theirs stays as it was."""
    key = gke.put("mine", location="us-east5-b", pools=[slice_pool()])
    until(lambda: "kubernetes" in gke.store.read()["clusters"][key])
    cluster = gke.kubernetes("mine")
    their_queue(cluster)
    before = cluster.inventory()["objects"]
    run, holding = pods.run(cluster=PLACE, queue="multislice-queue", slices=2), hold(RUN)
    try:
        outcome = play(run, holding)
        made = cluster.inventory()["objects"]
        own = [name for name in made["clusterqueues.kueue.x-k8s.io"] if name != "theirs"]
        assert len(own) == 1
        [js] = Kubernetes(by_context("standin", str(cluster.kubeconfig))).list(JOB_SET).items
        assert js["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == own[0]
        assert sorted(gke.pools("mine")) == ["np-0", "np-1", "theirs"]
    finally:
        release = teardown(run, holding)
    assert exit_code_of(outcome) == ExitCode.DONE, pods.said
    assert release.lease.state is State.GONE
    assert gke.inventory() == [key, f"{key}/nodePools/theirs"]
    assert cluster.inventory()["objects"] == before


def test_a_cluster_that_is_missing_is_made_and_given_back(pods: Pods, gke: Gke) -> None:
    run, holding = pods.run(cluster={**PLACE, **THERE}), hold(RUN)
    try:
        outcome = play(run, holding)
        assert gke.pools("mine") == {"cpu": "RUNNING", "np-0": "RUNNING"}
    finally:
        release = teardown(run, holding)
    assert exit_code_of(outcome) == ExitCode.DONE
    assert release.lease.state is State.GONE
    assert [one["method"] for one in gke.mutations()] == ["CreateCluster", "CreateNodePool", "DeleteCluster"]
    assert gke.inventory() == []
    until(gke.ended)
    [ended] = gke.ended()
    assert not [kind for kind in ended["objects"] if kind.startswith("jobsets")]
    assert "create jobsets default/sb-run" in str(ended["calls"])
    [told] = [line for line in pods.said if line.endswith(" given back, nothing is left")]
    assert told.startswith("3 resources (jobset ") and "gke_cluster mine, gke_node_pool np-0)" in told
