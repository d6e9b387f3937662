"""JobSets as leases see them: by their labels, wherever the ledger knows of some, gone when their pods are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.contract.errors import InfrastructureError
from tasks.cloud.kubernetes_places import access_to, is_place, place_of, signed
from tasks.cloud.labels import labels_for
from tasks.cloud.timing import Timing
from tasks.leases.holding import Holding
from tasks.leases.inventory import PartlyListed
from tasks.leases.jobsets import JOBSET, JobSetInventory
from tasks.leases.lease import State
from tasks.leases.patience import Patience
from tasks.leases.resource import ResourceRef
from tests.cloud.kubernetes.client import JOBSETS, PODS, Plain
from tests.cloud.kubernetes.manifests import jobset
from tests.cloud.kubernetes.stand_in import KubernetesStandIn
from tests.tasks.targets.gke_runs import hold
from tests.waiting import PATIENCE_S, until

ENDLESS = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
QUICK = Patience(grace_s=0.1, deadline_s=PATIENCE_S, look_every_s=0.05)
POD: dict[str, Any] = {"nodeSelector": {}, "terminationGracePeriodSeconds": 30}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesStandIn]:
    with KubernetesStandIn.started(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.fixture
def holding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Holding:
    monkeypatch.setenv("SLICEBENCH_HOME", str(tmp_path / "home"))
    return hold("run-1")


def scope_of(cluster: KubernetesStandIn) -> str:
    return f"{place_of('standin', str(cluster.kubeconfig))}/default"


def made(cluster: KubernetesStandIn, name: str, labels: dict[str, str]) -> str:
    """Makes a JobSet of one pod that carries labels as its JobSet does; returns its uid."""
    container = {"name": "c", "image": "i:1", "command": ["python", "-c", ENDLESS]}
    pod = {"restartPolicy": "Never", "containers": [container], "tolerations": [], **POD}
    body = jobset(name, slices=1, pods=1, pod=pod, labels=labels)
    del body["metadata"]["annotations"]
    template = body["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    template["metadata"]["labels"] |= labels
    return str(Plain(cluster.url).post(JOBSETS, body)["metadata"]["uid"])


def test_places_are_written_down_without_secrets_and_read_again(cluster: KubernetesStandIn) -> None:
    assert place_of("kind-a", None, {}) == "context kind-a"
    assert place_of("kind-a", None, {"KUBECONFIG": "/x/config"}) == "context kind-a of /x/config"
    assert place_of("kind-a", "/y/config", {"KUBECONFIG": "/x/config"}) == "context kind-a of /y/config"
    assert is_place("context arn:aws:eks:eu:1:cluster/a/default")
    assert not is_place("project/us-east5-b")
    access = access_to(scope_of(cluster))
    assert (access.server, access.namespace) == (cluster.url, "default")
    with pytest.raises(InfrastructureError, match="does not know the way to context other"):
        access_to(f"{place_of('other', str(cluster.kubeconfig))}/default")


def test_a_context_that_leads_to_another_cluster_by_now_is_no_proof_that_anything_is_gone(
    cluster: KubernetesStandIn, holding: Holding, tmp_path: Path
) -> None:
    file = tmp_path / "config"
    file.write_text(cluster.kubeconfig.read_text())
    unsigned = f"{place_of('standin', str(file))}/default"
    scope = signed(unsigned, access_to(unsigned))
    assert is_place(scope) and access_to(scope).server == cluster.url
    ref = holding.create(JOBSET, scope, "x", lambda: made(cluster, "x", dict(holding.resource_labels)))
    inventory = JobSetInventory(holding.ledger)
    assert inventory.sees(scope) and inventory.get(ref) == ref
    file.write_text(cluster.kubeconfig.read_text().replace(cluster.url, "http://127.0.0.1:1"))
    assert not inventory.sees(scope)
    for look in (inventory.get, lambda one: inventory.delete(one, force=True)):
        with pytest.raises(InfrastructureError, match="leads to http://127.0.0.1:1 now"):
            look(ref)
    with pytest.raises(PartlyListed):
        inventory.list(holding.lease.lease_id)
    file.write_text(cluster.kubeconfig.read_text())
    holding.release("the test is over", QUICK)


def test_only_what_carries_our_ledgers_label_is_listed(cluster: KubernetesStandIn, holding: Holding) -> None:
    scope = scope_of(cluster)
    ours = dict(holding.resource_labels)
    uids = {
        "mine": made(cluster, "mine", ours),
        "theirs": made(cluster, "theirs", dict(labels_for(holding.lease.lease_id, "another-ledger"))),
        "nobodys": made(cluster, "nobodys", {}),
    }
    holding.create(JOBSET, scope, "mine", lambda: uids["mine"])
    inventory = JobSetInventory(holding.ledger)
    found = inventory.list(holding.lease.lease_id)
    assert {(one.lease_id, one.ref.name, one.ref.uid) for one in found} == {
        (holding.lease.lease_id, "mine", uids["mine"])
    }
    assert inventory.get(ResourceRef(JOBSET, scope, "mine")) == ResourceRef(
        JOBSET, scope, "mine", uids["mine"]
    )
    assert inventory.get(ResourceRef(JOBSET, scope, "theirs")) is None  # a name alone may be anybody's
    assert inventory.get(ResourceRef(JOBSET, scope, "mine", "another-uid")) is None
    inventory.delete(ResourceRef(JOBSET, scope, "mine", "another-uid"), force=True)
    assert inventory.get(ResourceRef(JOBSET, scope, "mine", uids["mine"])) is not None

    api = Plain(cluster.url)
    for name in ("theirs", "nobodys"):
        api.delete(f"{JOBSETS}/{name}")
    for pod in api.names(PODS):
        if not pod.startswith("mine-"):
            api.delete(f"{PODS}/{pod}", gracePeriodSeconds="0")
    assert holding.release("the test is over", QUICK).lease.state is State.GONE
    cluster.assert_nothing_left()


def test_it_is_there_for_as_long_as_its_pods_are(cluster: KubernetesStandIn, holding: Holding) -> None:
    scope, api = scope_of(cluster), Plain(cluster.url)
    uid = made(cluster, "slow", dict(holding.resource_labels))
    ref = holding.create(JOBSET, scope, "slow", lambda: uid)
    api.eventually(PODS, lambda told: told["items"])
    [pod] = api.names(PODS)
    until(lambda: "up" in api.http.get(f"{PODS}/{pod}/log").text)
    inventory = JobSetInventory(holding.ledger)
    inventory.delete(ref, force=False)
    api.eventually(JOBSETS, lambda told: not told["items"])
    assert inventory.get(ref) == ref  # its pod does not heed SIGTERM
    assert [one.ref.uid for one in inventory.list(holding.lease.lease_id)] == [uid]
    inventory.delete(ref, force=True)
    api.eventually(PODS, lambda told: not told["items"])
    assert inventory.get(ref) is None
    assert inventory.list(holding.lease.lease_id) == []
    cluster.assert_nothing_left()


def test_a_cluster_that_does_not_answer_is_told(
    cluster: KubernetesStandIn, holding: Holding, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.leases.jobsets._TIMING", Timing(try_s=1.0, total_s=1.0))
    holding.create(JOBSET, scope_of(cluster), "unknown", lambda: "uid")
    cluster.fault(verb="list", kind="jobsets", action="error", code=503, times=100)
    with pytest.raises(PartlyListed, match="nobody knows what jobset there are in context standin"):
        JobSetInventory(holding.ledger).list(holding.lease.lease_id)
    cluster.fault()


def test_what_a_finalizer_keeps_is_told_with_its_name(cluster: KubernetesStandIn, holding: Holding) -> None:
    plain, inventory = Plain(cluster.url), JobSetInventory(holding.ledger)
    scope = signed(scope_of(cluster), access_to(scope_of(cluster)))
    ref = holding.create(JOBSET, scope, "kept", lambda: made(cluster, "kept", dict(holding.resource_labels)))
    plain.patch(f"{JOBSETS}/kept", {"metadata": {"finalizers": ["example.com/keep"]}})
    inventory.delete(ref, force=True)
    assert "JobSet kept is held by the finalizer example.com/keep" in inventory.why_still(ref)
    plain.patch(f"{JOBSETS}/kept", {"metadata": {"finalizers": None}})
    holding.release("done", QUICK)
    assert inventory.get(ref) is None
