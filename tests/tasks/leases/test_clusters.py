"""Clusters and node pools as things of a lease: found by label, deleted, looked at until they are gone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runtime.contract.errors import ExitCode
from tasks.leases.claim import claim
from tasks.leases.clusters import CLUSTER, POOL
from tasks.leases.holding import Holding
from tasks.leases.lease import State
from tasks.leases.patience import Patience
from tasks.leases.reaper import exit_code, reap
from tasks.leases.resource import ResourceRef
from tests.cloud.container.hurried import REGION, ZONE, cluster_request, container, pool_request
from tests.cloud.container.leasing import a_ledger, quick_inventories
from tests.cloud.container.running import Gke
from tests.waiting import until

SCOPE = f"proj/{REGION}"


@pytest.fixture
def holding(gke: Gke) -> Holding:
    ledger = a_ledger()
    return claim(ledger, quick_inventories(ledger), "run-1", "run-1")


def make_cluster(holding: Holding, name: str = "mine", *, wait: bool = True) -> ResourceRef:
    request = cluster_request(name, holding.resource_labels)
    ref = holding.create(CLUSTER, SCOPE, name, lambda: container().create_cluster(REGION, request)[0].uid)
    holding.contain(ref, frozenset({POOL}))
    until(lambda: not wait or container().cluster(REGION, name).state == "RUNNING")
    return ref


def make_pool(holding: Holding, cluster: str, name: str = "np-0") -> ResourceRef:
    request = pool_request(name, holding.resource_labels)
    return holding.create(
        POOL, f"{SCOPE}/{cluster}", name, lambda: container().create_pool(REGION, cluster, request)[0].uid
    )


def adopt(holding: Holding, gke: Gke, name: str = "theirs") -> str:
    key = gke.put(name)
    ref = holding.adopt(CLUSTER, SCOPE, name, container().cluster(REGION, name).uid)
    holding.contain(ref, frozenset({POOL}))
    return key


def test_everything_made_is_listed_by_lease_and_nothing_else_is(holding: Holding, gke: Gke) -> None:
    cluster = make_cluster(holding)
    make_pool(holding, "mine")
    gke.put("foreign")
    gke.put("other-ledger", labels={**holding.resource_labels, "slicebench-ledger": "another"})
    gke.put("mixed", pools=[pool_request("np-7", holding.resource_labels), pool_request("np-8")])
    inventories = holding.inventories
    assert [found.ref for found in inventories[CLUSTER].list("run-1-e1")] == [cluster]
    # What is in a cluster of the same lease goes with that.
    assert [found.ref.name for found in inventories[POOL].list("run-1-e1")] == ["np-7"]
    assert {found.ref.name for found in inventories[CLUSTER].list(None)} == {"mine"}
    assert inventories[CLUSTER].list("run-2-e1") == []


@pytest.mark.parametrize("state", ["PROVISIONING", "ERROR", "RUNNING", "with a pool under way"])
def test_a_cluster_in_any_state_is_given_back_with_its_pools(holding: Holding, gke: Gke, state: str) -> None:
    gke.set(failing_clusters=["mine"] if state == "ERROR" else [])
    gke.set(slow={"CREATE_CLUSTER": 0.3, "CREATE_NODE_POOL": 0.3} if state != "RUNNING" else {})
    make_cluster(holding, wait=state in ("RUNNING", "with a pool under way"))
    if state == "ERROR":
        until(lambda: container().cluster(REGION, "mine").state == "ERROR")
    if state.startswith(("RUNNING", "with")):
        make_pool(holding, "mine")
    done = holding.release("the run is over")
    assert done.lease.state is State.GONE, done.lease.note
    assert gke.inventory() == []
    assert [one["method"] for one in gke.mutations() if one["method"].startswith("Delete")] == [
        "DeleteCluster"
    ]


def test_of_a_cluster_that_was_there_only_our_pools_go(holding: Holding, gke: Gke) -> None:
    key = adopt(holding, gke)
    gke.set(slow={"CREATE_NODE_POOL": 0.2})
    for name in ("np-0", "np-1"):
        make_pool(holding, "theirs", name)
    assert holding.release("the run is over").lease.state is State.GONE
    assert gke.inventory() == [key]


def test_a_cluster_that_its_owner_deleted_took_our_pools_with_it(holding: Holding, gke: Gke) -> None:
    adopt(holding, gke)
    make_pool(holding, "theirs")
    gke.vanish("theirs")
    assert holding.release("the run is over").lease.state is State.GONE


def test_a_pool_in_error_is_there_and_goes(holding: Holding, gke: Gke) -> None:
    key = adopt(holding, gke)
    gke.set(stockouts=[ZONE])
    ref = make_pool(holding, "theirs")
    until(lambda: gke.pools("theirs") == {"np-0": "ERROR"})
    assert holding.inventories[POOL].get(ref) == ref
    holding.discard(ref)
    assert (gke.inventory(), holding.lease.find(POOL, ref.scope, "np-0")) == ([key], None)


def test_another_thing_under_our_name_is_left_alone(holding: Holding, gke: Gke) -> None:
    ref = make_cluster(holding)
    pool = make_pool(holding, "mine")
    gke.vanish("mine")
    key = gke.put("mine", pools=[pool_request("np-0")])
    inventories = holding.inventories
    assert inventories[CLUSTER].get(ref) is None
    assert inventories[CLUSTER].get(replace(ref, uid=None)) is None
    assert inventories[POOL].get(pool) is None
    assert inventories[POOL].get(replace(pool, uid=None)) is None
    inventories[CLUSTER].delete(ref, force=True)
    inventories[POOL].delete(pool, force=True)
    assert holding.release("the run is over").lease.state is State.GONE
    assert gke.inventory() == [key, f"{key}/nodePools/np-0"]


def test_a_deletion_that_is_refused_is_a_leak_and_the_reaper_ends_it(holding: Holding, gke: Gke) -> None:
    make_cluster(holding)
    gke.set(undeletable=["mine"])
    done = holding.release("the run is over", Patience(at_most_s=0.5))
    assert (done.lease.state, [ref.name for ref in done.left]) == (State.LEAKED, ["mine"])
    assert "deletion protection" in done.lease.note
    gke.set(undeletable=[])
    [found] = reap(a_ledger(), quick_inventories(a_ledger()))
    assert (found.did, gke.inventory()) == ("released", [])


def test_a_zone_that_does_not_answer_is_not_an_empty_one(holding: Holding, gke: Gke) -> None:
    make_cluster(holding)
    gke.set(unreachable=["europe-west4-a"])
    done = holding.release("the run is over", Patience(at_most_s=0.5))
    assert done.lease.state is State.LEAKED
    assert "europe-west4-a did not answer" in done.lease.note


def test_what_carries_a_label_that_no_lease_stands_behind_goes(gke: Gke) -> None:
    ledger = a_ledger()
    other = claim(ledger, quick_inventories(ledger), "alive", "alive")
    labels = {**other.resource_labels, "slicebench-lease": "forgotten-e1"}
    gke.put("orphan", labels=labels, pools=[pool_request("np-0", labels)])
    key = gke.put("theirs", pools=[pool_request("np-0", labels)])
    mine = gke.put("mine", labels=dict(other.resource_labels))
    findings = reap(ledger, quick_inventories(ledger))
    assert {(one.lease_id, one.did) for one in findings} == {
        ("alive-e1", "kept"),
        ("forgotten-e1", "released"),
    }
    assert gke.inventory() == [mine, key]


def test_an_api_that_is_not_enabled_has_no_clusters_unless_the_ledger_says_so(
    holding: Holding, gke: Gke
) -> None:
    gke.set(projects=["another"])
    assert holding.inventories[CLUSTER].list(None) == []
    assert exit_code(reap(a_ledger(), quick_inventories(a_ledger()))) is ExitCode.DONE
    gke.set(projects=["proj"])
    make_cluster(holding)
    gke.set(projects=["another"])
    findings = reap(a_ledger(), quick_inventories(a_ledger()))
    assert {one.did for one in findings} == {"not listed", "kept"}


def test_nothing_is_asked_of_google_among_stand_ins_of_other_services(
    gke: Gke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SLICEBENCH_CONTAINER_ENDPOINT")
    monkeypatch.setenv("SLICEBENCH_TPU_ENDPOINT", "127.0.0.1:1")
    ledger = a_ledger()
    assert quick_inventories(ledger)[CLUSTER].list(None) == []
    assert gke.requests() == []
