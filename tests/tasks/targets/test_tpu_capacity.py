"""Getting slices against the stand-in: chosen, waited for, taken away, in the next zone, adopted, and given back."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import pytest

from runtime.contract.errors import BadInput
from tasks.cloud.tpu import CloudTpu
from tasks.cloud.tpu_errors import AlreadyExists, PermissionDenied
from tasks.cloud.tpu_model import NodeRequest, QueuedRequest
from tasks.config.tpu_target import TpuVmTargetConfig
from tasks.leases.claim import claim
from tasks.leases.holding import Fenced, Holding
from tasks.leases.lease import State
from tasks.leases.tpus import NODE, QUEUED
from tasks.targets.tpu_capacity import Desk, NoCapacity
from tests.cloud.tpu.leasing import QUICK, ZONE, a_ledger, quick_inventories
from tests.cloud.tpu.running import Cloud
from tests.waiting import until

NEXT = "us-east5-a"
NAME = "sb-run-1-e1"


@pytest.fixture
def holding(tpu_cloud: Cloud) -> Holding:
    ledger = a_ledger()
    return claim(ledger, quick_inventories(ledger), "run-1", "run-1")


def config(**more: Any) -> TpuVmTargetConfig:
    fields = {"kind": "tpu_vm", "zones": [ZONE, NEXT], "type": "v6e-16", "python": "/p", **more}
    return TpuVmTargetConfig.model_validate(fields)


def desk(holding: Holding, said: list[str] | None = None, **more: Any) -> Desk:
    say: Callable[[str], None] = (said if said is not None else []).append
    return Desk(
        CloudTpu("proj", timing=QUICK), config(**more), holding, say, {"ssh-keys": "u:k"}, poll_s=0.02
    )


def kinds(holding: Holding) -> list[tuple[str, str, bool]]:
    return [(ref.kind, ref.scope, ref.ours) for ref in holding.lease.resources]


def test_one_slice_is_a_node_with_the_lease_s_key_and_labels(holding: Holding, tpu_cloud: Cloud) -> None:
    slices = desk(holding, tier="spot", network="n", service_account="sa@p", tags=["t"]).acquire()
    [node] = slices.nodes
    assert (slices.ours, node.name, len(node.addresses), node.spot) == (True, NAME, 4, True)
    assert (node.metadata, node.runtime_version) == ({"ssh-keys": "u:k"}, "v2-alpha-tpuv6e")
    assert kinds(holding) == [(NODE, f"proj/{ZONE}", True)]
    asked = tpu_cloud.requests("CreateNode")[0]["request"]["node"]
    assert (asked["network_config"]["network"], asked["tags"]) == ("n", ["t"])
    assert asked["service_account"]["email"] == "sa@p"
    holding.live()
    assert holding.release("over").lease.state is State.GONE
    assert tpu_cloud.inventory() == []


def test_several_slices_are_one_queued_resource(holding: Holding, tpu_cloud: Cloud) -> None:
    slices = desk(holding, slices=3).acquire()
    assert [node.name for node in slices.nodes] == [f"{NAME}-{index}" for index in range(3)]
    assert kinds(holding) == [(QUEUED, f"proj/{ZONE}", True)]
    assert holding.release("over").lease.state is State.GONE
    assert tpu_cloud.inventory() == []


@pytest.mark.parametrize("queued", [False, True])
def test_no_room_here_so_the_next_zone(holding: Holding, tpu_cloud: Cloud, queued: bool) -> None:
    tpu_cloud.set(stockouts=[ZONE])
    said: list[str] = []
    slices = desk(holding, said, queued=queued, limits={"queue_s": 0.3}).acquire()
    assert [node.zone for node in slices.nodes] == [NEXT]
    assert kinds(holding) == [(QUEUED if queued else NODE, f"proj/{NEXT}", True)]
    assert all(f"/{ZONE}/" not in name for name in tpu_cloud.inventory()), (
        "nothing is left where there is no room"
    )
    assert any(f"giving back what was asked for in {ZONE}" in line for line in said)
    if queued:
        assert any("is WAITING_FOR_RESOURCES since" in line and ", until " in line for line in said), said


def test_no_room_and_no_quota_anywhere_is_told_for_each_zone(holding: Holding, tpu_cloud: Cloud) -> None:
    tpu_cloud.set(stockouts=[ZONE], quotas={f"{NEXT}/v6e": 8})
    with pytest.raises(NoCapacity) as caught:
        desk(holding).acquire()
    assert f'no more capacity in the zone "{ZONE}"' in str(caught.value)
    assert "Limit: 8 in region us-east5" in str(caught.value)
    assert (tpu_cloud.inventory(), kinds(holding)) == ([], [])


@pytest.mark.parametrize("state", ["FAILED", "SUSPENDED"])
def test_a_queued_resource_that_ends_is_given_back_for_it_holds_quota(
    holding: Holding,
    tpu_cloud: Cloud,
    state: str,
) -> None:
    tpu_cloud.set(hold=["PROVISIONING"], quotas={f"{ZONE}/v6e": 32})

    def end_it(line: str) -> None:
        if "coming up" in line:
            with tpu_cloud.store.changing() as world:
                for queued in world["queued"].values():
                    queued.update(state=state, due=None, error=[8, "There is no more capacity in the zone"])
                for name in list(world["nodes"]):
                    del world["nodes"][name]
                world["settings"]["hold"] = []

    at = desk(holding, slices=2)
    at.say = end_it
    tpu_cloud.set(create_s=30.0)
    at.config = config(slices=2, zones=[ZONE])
    with pytest.raises(NoCapacity):
        at.acquire()
    assert (tpu_cloud.inventory(), kinds(holding)) == ([], [])


def test_a_node_that_is_taken_away_while_it_comes_up_is_given_back(
    holding: Holding, tpu_cloud: Cloud
) -> None:
    tpu_cloud.set(create_s=30.0)
    at = desk(holding)

    def preempt(line: str) -> None:
        if "coming up" in line and ZONE in line:
            tpu_cloud.preempt(NAME)
            tpu_cloud.set(create_s=0.05)

    at.say = preempt
    assert [node.zone for node in at.acquire().nodes] == [NEXT]
    assert all(f"/{ZONE}/" not in name for name in tpu_cloud.inventory())


def in_seconds(seconds: float) -> datetime.datetime:
    """Returns a moment so far from now, once there is a client: to import it takes longer than that."""
    CloudTpu("proj", timing=QUICK).nodes(ZONE)
    return datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=seconds)


def test_the_queue_s_limit_counts_from_when_it_may_come_up(holding: Holding, tpu_cloud: Cloud) -> None:
    said: list[str] = []
    at = desk(holding, said, zones=[ZONE], valid_after=in_seconds(6.0), limits={"queue_s": 4.0})
    assert [node.zone for node in at.acquire().nodes] == [ZONE]
    assert any("(not before " in line and ", until " in line for line in said), said


def test_what_found_no_room_in_its_time_is_not_asked_for_elsewhere(
    holding: Holding, tpu_cloud: Cloud
) -> None:
    tpu_cloud.set(stockouts=[ZONE])
    said: list[str] = []
    end = in_seconds(6.0)
    with pytest.raises(
        NoCapacity, match=f"until its valid_until.*{NEXT} was not asked, as valid_until is past"
    ):
        desk(holding, said, valid_until=end).acquire()
    assert any(end.strftime(", until %H:%M:%S UTC") in line for line in said), said
    assert (tpu_cloud.inventory(), kinds(holding)) == ([], [])


def test_half_of_the_workers_never_ready(holding: Holding, tpu_cloud: Cloud) -> None:
    tpu_cloud.set(missing_workers=2)
    with pytest.raises(NoCapacity, match="has 2 of 4 workers"):
        desk(holding, limits={"provisioning_s": 0.2}).acquire()
    assert tpu_cloud.inventory() == []


def test_what_vanishes_while_we_wait_is_told(holding: Holding, tpu_cloud: Cloud) -> None:
    tpu_cloud.set(hold=["CREATING"])
    at = desk(holding)

    def vanish(line: str) -> None:
        if "coming up" in line and ZONE in line:
            tpu_cloud.vanish(NAME)
            tpu_cloud.set(hold=[])
        said.append(line)

    said: list[str] = []
    at.say = vanish
    assert [node.zone for node in at.acquire().nodes] == [NEXT], "the next zone may have better luck"
    assert any("it vanished while it was being made" in line for line in said), said


def test_a_stockout_is_seen_on_a_busy_project_too(holding: Holding, tpu_cloud: Cloud) -> None:
    tpu = CloudTpu("proj", timing=QUICK)
    for index in range(3):  # more operations than are told on a page
        tpu.create_node(ZONE, f"n{index}", NodeRequest("v6e-1", "v2-alpha-tpuv6e", {}))
    until(lambda: all(node.state == "READY" for node in tpu.nodes(ZONE)))
    tpu_cloud.set(stockouts=[ZONE])
    assert [node.zone for node in desk(holding).acquire().nodes] == [NEXT]


@pytest.mark.parametrize("queued", [False, True])
def test_a_name_that_is_going_is_waited_for(holding: Holding, tpu_cloud: Cloud, queued: bool) -> None:
    tpu = CloudTpu("proj", timing=QUICK)
    plain = NodeRequest("v6e-4", "v2-alpha-tpuv6e", {})
    tpu_cloud.set(hold=["DELETING"])
    if queued:
        tpu.create_queued(ZONE, NAME, QueuedRequest(plain, NAME, 1))
        tpu.delete_queued(ZONE, NAME)
    else:
        tpu.create_node(ZONE, NAME, plain)
        tpu.delete_node(ZONE, NAME)
    at = desk(holding, zones=[ZONE], queued=queued)
    said: list[str] = []

    def say(line: str) -> None:
        said.append(line)
        if "is taken, DELETING," in line:
            tpu_cloud.set(hold=[])

    at.say = say
    [node] = at.acquire().nodes
    assert (node.name, node.type) == (NAME, "v6e-16")
    assert any(f"the name {NAME} in {ZONE} is taken, DELETING, since" in line for line in said), said


def test_a_name_that_does_not_go_in_time_leads_to_the_next_zone(holding: Holding, tpu_cloud: Cloud) -> None:
    tpu = CloudTpu("proj", timing=QUICK)
    tpu.create_node(ZONE, NAME, NodeRequest("v6e-4", "v2-alpha-tpuv6e", {}))
    tpu_cloud.set(hold=["DELETING"])
    tpu.delete_node(ZONE, NAME)
    said: list[str] = []
    slices = desk(holding, said, limits={"provisioning_s": 1.0}).acquire()
    assert [node.zone for node in slices.nodes] == [NEXT]
    assert any("being deleted, and did not go within limits.provisioning_s" in line for line in said), said


def test_acquire_again_goes_on_with_what_is_there(holding: Holding, tpu_cloud: Cloud) -> None:
    tpu_cloud.set(stockouts=[ZONE])
    first = desk(holding, slices=2, limits={"queue_s": 0.2}).acquire()
    tpu_cloud.set(stockouts=[])
    again = desk(holding, slices=2).acquire()
    assert [node.uid for node in again.nodes] == [node.uid for node in first.nodes]
    assert len(tpu_cloud.inventory()) == 3


def test_what_exists_is_adopted_by_exact_name_and_stays(holding: Holding, tpu_cloud: Cloud) -> None:
    tpu = CloudTpu("proj", timing=QUICK)
    plain = NodeRequest("v6e-4", "v2-alpha-tpuv6e", {})
    tpu.create_node(NEXT, "mine", plain)
    tpu.create_node(NEXT, "mine-2", plain)
    tpu.create_queued(ZONE, "q", QueuedRequest(plain, "q", 2))
    until(lambda: tpu.queued_resource(ZONE, "q").state == "ACTIVE")
    there = tpu_cloud.inventory()
    for zones in ([], [ZONE, NEXT]):
        at = desk(holding)
        at.config = config(zones=zones, existing="mine")
        assert [(node.name, node.zone) for node in at.acquire().nodes] == [("mine", NEXT)]
    at.config = config(zones=[], existing="q")
    slices = at.acquire()
    assert ([node.name for node in slices.nodes], slices.ours) == (["q-0", "q-1"], False)
    assert holding.release("over").lease.state is State.GONE
    assert tpu_cloud.inventory() == there
    at.config = config(zones=[], existing="min")
    with pytest.raises(BadInput, match="there is no TPU VM or queued resource 'min'"):
        at.acquire()


def test_denied_is_never_taken_for_missing(holding: Holding, tpu_cloud: Cloud) -> None:
    tpu_cloud.set(denied=["GetQueuedResource"])
    at = desk(holding)
    at.config = config(zones=[ZONE], existing="mine")
    with pytest.raises(PermissionDenied):
        at.acquire()


def test_a_name_in_foreign_hands_is_not_touched(holding: Holding, tpu_cloud: Cloud) -> None:
    tpu = CloudTpu("proj", timing=QUICK)
    tpu.create_node(ZONE, NAME, NodeRequest("v6e-4", "v2-alpha-tpuv6e", {}))
    with pytest.raises(AlreadyExists, match="not by slicebench"):
        desk(holding).acquire()
    assert holding.release("over").lease.state is State.GONE
    assert len(tpu_cloud.inventory()) == 1


def test_who_lost_the_lease_stops_waiting(holding: Holding, tpu_cloud: Cloud) -> None:
    tpu_cloud.set(hold=["CREATING"])  # so that there is something to wait for
    at = desk(holding)

    def lose(line: str) -> None:
        other = claim(a_ledger(), quick_inventories(a_ledger()), "run-1", "run-1")
        assert other.release("taken").lease.state is State.GONE

    at.say = lose
    tpu_cloud.set(delete_s=0.0)
    with pytest.raises(Fenced, match="was lost"):
        at.acquire()
    assert tpu_cloud.inventory() == []
