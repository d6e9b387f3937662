"""TPU VMs and queued resources as things of a lease: found by label, deleted, looked at until they are gone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runtime.contract.errors import ExitCode
from tasks.cloud.tpu import CloudTpu
from tasks.leases import steps
from tasks.leases.claim import claim
from tasks.leases.holding import Holding
from tasks.leases.lease import State
from tasks.leases.patience import Patience
from tasks.leases.reaper import exit_code, reap
from tasks.leases.resource import ResourceRef
from tasks.leases.tpus import NODE, QUEUED, projects_of
from tests.cloud.tpu.leasing import (
    QUICK,
    SCOPE,
    ZONE,
    a_ledger,
    make_node,
    make_queued,
    quick_inventories,
    request,
)
from tests.cloud.tpu.running import Cloud
from tests.waiting import until

HASTY = Patience(deadline_s=1.0)


@pytest.fixture
def holding(tpu_cloud: Cloud) -> Holding:
    ledger = a_ledger()
    return claim(ledger, quick_inventories(ledger), "run-1", "run-1")


def tpu() -> CloudTpu:
    return CloudTpu("proj", timing=QUICK)


def test_everything_made_is_listed_by_lease_and_nothing_else_is(holding: Holding, tpu_cloud: Cloud) -> None:
    node, queued = make_node(holding, "n1"), make_queued(holding, "q1")
    tpu().create_node(ZONE, "foreign", replace(request(holding), labels={"owner": "jan"}))
    elsewhere = {**holding.resource_labels, "slicebench-ledger": "another"}
    tpu().create_node("us-east5-a", "other-ledger", replace(request(holding), labels=elsewhere))
    until(lambda: len(tpu_cloud.inventory()) == 6)
    inventories = holding.inventories
    assert [found.ref for found in inventories[QUEUED].list("run-1-e1")] == [replace(queued, dead_man="none")]
    assert node in [found.ref for found in inventories[NODE].list("run-1-e1")]
    assert {found.ref.name for found in inventories[NODE].list(None)} == {"n1", "q1-0", "q1-1"}
    assert inventories[NODE].list("run-2-e1") == []


@pytest.mark.parametrize("state", ["WAITING_FOR_RESOURCES", "ACTIVE", "FAILED", "SUSPENDED"])
def test_a_queued_resource_in_any_state_is_given_back(holding: Holding, tpu_cloud: Cloud, state: str) -> None:
    if state == "WAITING_FOR_RESOURCES":
        tpu_cloud.set(stockouts=[ZONE])
    make_queued(holding, "q1")
    if state in ("SUSPENDED", "FAILED"):
        until(lambda: tpu().queued_resource(ZONE, "q1").state == "ACTIVE")
        with tpu_cloud.store.changing() as world:
            world["queued"][f"projects/proj/locations/{ZONE}/queuedResources/q1"]["state"] = state
    until(lambda: tpu().queued_resource(ZONE, "q1").state == state)
    done = holding.release("the run is over")
    assert done.lease.state is State.GONE, done.lease.note
    assert tpu_cloud.inventory() == []


def test_a_preempted_node_still_holds_its_quota_and_is_given_back(holding: Holding, tpu_cloud: Cloud) -> None:
    make_node(holding, "n1")
    until(lambda: tpu().node(ZONE, "n1").state == "READY")
    tpu_cloud.preempt("n1")
    assert [found.ref.name for found in holding.inventories[NODE].list("run-1-e1")] == ["n1"]
    assert holding.release("the run is over").lease.state is State.GONE
    assert tpu_cloud.inventory() == []


def test_another_thing_under_our_name_is_left_alone(holding: Holding, tpu_cloud: Cloud) -> None:
    ref = make_node(holding, "n1")
    tpu_cloud.vanish("n1")
    assert holding.inventories[NODE].get(ref) is None
    tpu().create_node(ZONE, "n1", replace(request(holding), labels={}))
    assert holding.inventories[NODE].get(ref) is None
    assert holding.inventories[NODE].get(replace(ref, uid=None)) is None
    holding.inventories[NODE].delete(ref, force=True)
    assert holding.release("the run is over").lease.state is State.GONE
    assert [name.rsplit("/")[-1] for name in tpu_cloud.inventory()] == ["n1"]


def test_what_was_adopted_stays(holding: Holding, tpu_cloud: Cloud) -> None:
    there = tpu().create_node(ZONE, "mine", replace(request(holding), labels={}))
    holding.adopt(NODE, SCOPE, "mine", there.uid)
    assert holding.release("the run is over").lease.state is State.GONE
    assert len(tpu_cloud.inventory()) == 1


def test_a_deletion_that_is_refused_is_a_leak_and_the_reaper_ends_it(
    holding: Holding,
    tpu_cloud: Cloud,
) -> None:
    make_node(holding, "n1")
    tpu_cloud.set(undeletable=["n1"])
    done = holding.release("the run is over", HASTY)
    assert (done.lease.state, [ref.name for ref in done.left]) == (State.LEAKED, ["n1"])
    assert "maintenance is under way" in done.lease.note
    tpu_cloud.set(undeletable=[])
    [found] = reap(a_ledger(), quick_inventories(a_ledger()))
    assert (found.did, tpu_cloud.inventory()) == ("released", [])


def test_a_zone_that_does_not_answer_is_not_an_empty_one(holding: Holding, tpu_cloud: Cloud) -> None:
    make_node(holding, "n1")
    tpu_cloud.set(unreachable=["europe-west4-a"])
    done = holding.release("the run is over", HASTY)
    assert done.lease.state is State.LEAKED
    assert "europe-west4-a did not answer" in done.lease.note


def test_what_no_lease_stands_behind_is_reaped_by_its_labels(holding: Holding, tpu_cloud: Cloud) -> None:
    labels = {**holding.resource_labels, "slicebench-lease": "forgotten-e1"}
    tpu().create_node(ZONE, "orphan", replace(request(holding), labels=labels))
    ledger = a_ledger()
    assert projects_of(ledger, None) == {"proj": False}, "from the environment: the ledger names none"
    found = {one.lease_id: one.did for one in reap(ledger, quick_inventories(ledger))}
    assert found == {"run-1-e1": "kept", "forgotten-e1": "released"}
    assert tpu_cloud.inventory() == []


def test_a_project_that_does_not_answer_any_more_hides_nothing_in_the_others(
    holding: Holding, tpu_cloud: Cloud
) -> None:
    ledger = a_ledger()
    node = ResourceRef(NODE, "closed/us-east5-b", "n9", "uid")
    old = replace(steps.plan("old", "old", 1, None, 0.0, None), state=State.GONE, resources=(node,))
    ledger.write(old)
    labels = {**holding.resource_labels, "slicebench-lease": "forgotten-e1"}
    tpu().create_node(ZONE, "orphan", replace(request(holding), labels=labels))
    findings = reap(ledger, quick_inventories(ledger))
    assert {one.lease_id: one.did for one in findings} == {
        "all tpu_node": "not listed",
        "all tpu_queued_resource": "not listed",
        "all tpu_entry": "not listed",
        "run-1-e1": "kept",
        "forgotten-e1": "released",
    }
    assert tpu_cloud.inventory() == []
    assert "there are in closed: " in next(one.why for one in findings if one.did == "not listed")
    assert exit_code(findings) is ExitCode.INFRASTRUCTURE


def test_a_lease_without_tpus_asks_nobody(holding: Holding, tpu_cloud: Cloud) -> None:
    assert holding.release("the run is over").lease.state is State.GONE
    assert tpu_cloud.requests() == []


def test_every_create_carries_labels(holding: Holding, tpu_cloud: Cloud) -> None:
    make_node(holding, "n1")
    make_queued(holding, "q1")
    node = tpu_cloud.requests("CreateNode")[0]["request"]["node"]
    spec = tpu_cloud.requests("CreateQueuedResource")[0]["request"]["queued_resource"]["tpu"]["node_spec"][0]
    for labels in (node["labels"], spec["node"]["labels"]):
        assert labels == holding.resource_labels
        assert labels.keys() == {
            "slicebench-lease",
            "slicebench-ledger",
            "slicebench-owner",
            "slicebench-expires",
        }


def test_what_is_inside_a_machine_goes_with_it_though_nobody_can_look_there(
    holding: Holding,
    tpu_cloud: Cloud,
) -> None:
    node = make_node(holding, "n1")
    holding.contain(node, frozenset({"thing_there"}))
    inner = holding.create("thing_there", "somewhere", "t", lambda: "uid")
    assert (inner.inside, holding.lease.find("thing_there", "somewhere", "t")) == (node.key, inner)
    assert holding.create("directory", "here", "d", lambda: "uid").inside == ""
    holding.forget(replace(inner, kind="directory", scope="here", name="d"))
    holding.discard(node)
    assert (holding.lease.resources, tpu_cloud.inventory()) == ((), [])
    make_node(holding, "n1")
    holding.create("thing_there", "somewhere", "t", lambda: "uid")
    done = holding.release("the run is over")
    assert (done.lease.state, done.problems) == (State.GONE, ())
    assert tpu_cloud.inventory() == []


def test_what_is_inside_something_adopted_is_looked_for(holding: Holding, tpu_cloud: Cloud) -> None:
    there = tpu().create_node(ZONE, "mine", replace(request(holding), labels={}))
    node = holding.adopt(NODE, SCOPE, "mine", there.uid)
    holding.contain(node, frozenset({"thing_there"}))
    holding.create("thing_there", "somewhere", "t", lambda: "uid")
    done = holding.release("the run is over", HASTY)
    assert done.lease.state is State.LEAKED
    assert "no inventory of thing_there" in done.lease.note


def test_what_was_on_a_tpu_that_its_owner_deleted_went_with_it(holding: Holding, tpu_cloud: Cloud) -> None:
    there = tpu().create_node(ZONE, "mine", replace(request(holding), labels={}))
    node = holding.adopt(NODE, SCOPE, "mine", there.uid)
    holding.contain(node, frozenset({"thing_there"}))
    holding.create("thing_there", "somewhere", "t", lambda: "uid")
    tpu_cloud.vanish("mine")
    assert holding.release("the run is over", HASTY).lease.state is State.GONE
