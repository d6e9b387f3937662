"""GKE's client against the stand-in: what is made, waited for and lost on the way, and whose it is."""

from __future__ import annotations

from typing import Any

import pytest

from tasks.cloud.container import Container, failure_of
from tasks.cloud.container_errors import (
    AlreadyExists,
    BadLocation,
    Busy,
    NotFound,
    PermissionDenied,
    QuotaExhausted,
    Refused,
    ReservationShort,
    StockedOut,
    Unavailable,
)
from tasks.cloud.labels import labels_for
from tests.cloud.container.hurried import QUICK, REGION, ZONE, cluster_request, container, pool_request
from tests.cloud.container.running import Gke
from tests.waiting import until

LABELS = labels_for("cluster-mine-e1", "ledger1", "ann")


@pytest.fixture
def there(gke: Gke) -> Container:
    """A client, and a running cluster `mine` that the lease cluster-mine-e1 made."""
    client = container()
    client.create_cluster(REGION, cluster_request(labels=LABELS))
    until(lambda: client.cluster(REGION, "mine").state == "RUNNING")
    return client


def make_pool(client: Container, request: dict[str, Any] | None = None) -> str:
    """Makes a pool and waits for its operation; returns its name."""
    _, name = client.create_pool(REGION, "mine", request or pool_request(labels=LABELS))
    until(lambda: client.operation(REGION, name).done)
    return name


def test_made_found_and_told(there: Container) -> None:
    make_pool(there)
    [cluster] = there.clusters()
    assert (cluster.name, cluster.location, cluster.state, cluster.zones) == (
        "mine",
        REGION,
        "RUNNING",
        (ZONE,),
    )
    assert cluster.ca.startswith(b"-----BEGIN CERTIFICATE")
    assert dict(cluster.labels) == dict(LABELS)
    pool = cluster.pool("np-0")
    assert pool is not None
    assert (pool.machine_type, pool.size, pool.topology, pool.state) == (
        "ct5lp-hightpu-4t",
        4,
        "4x4",
        "RUNNING",
    )
    assert pool.uid == f"{cluster.uid} np-0 cluster-mine-e1"
    assert there.clusters("us-west4") == []


@pytest.mark.parametrize("action", ["lose_reply", "error"])
def test_a_lost_reply_makes_one_cluster_and_finds_its_operation(gke: Gke, action: str) -> None:
    gke.fault("CreateCluster", action, code="UNAVAILABLE")
    made, operation = container().create_cluster(REGION, cluster_request(labels=LABELS))
    assert (made.name, len(gke.inventory())) == ("mine", 2)
    assert container().operation(REGION, operation).type == "CREATE_CLUSTER"
    assert len(gke.requests("CreateCluster")) == (1 if action == "lose_reply" else 2)


def test_a_lost_reply_makes_one_pool(there: Container, gke: Gke) -> None:
    gke.fault("CreateNodePool", "lose_reply")
    make_pool(there)
    assert (len(gke.requests("CreateNodePool")), gke.pools("mine")) == (
        1,
        {"cpu": "RUNNING", "np-0": "RUNNING"},
    )


def test_what_another_lease_made_is_not_ours(there: Container) -> None:
    with pytest.raises(AlreadyExists, match="by ann's lease cluster-mine-e1"):
        there.create_cluster(REGION, cluster_request(labels=labels_for("cluster-mine-e2", "ledger1", "bob")))
    again, operation = there.create_cluster(REGION, cluster_request(labels=LABELS))
    assert (again.uid, operation) == (there.cluster(REGION, "mine").uid, operation)


def test_one_operation_at_a_time_is_waited_for(there: Container, gke: Gke) -> None:
    gke.set(slow={"CREATE_NODE_POOL": 0.3})
    there.create_pool(REGION, "mine", pool_request("np-0", LABELS))
    _, second = there.create_pool(REGION, "mine", pool_request("np-1", LABELS))
    asked = gke.requests("CreateNodePool")
    assert [one["outcome"] for one in asked if one["outcome"] != "FAILED_PRECONDITION"] == ["OK", "OK"]
    assert any("currently creating a node pool for cluster mine" in one.get("message", "") for one in asked)
    with pytest.raises(Busy, match="currently creating a node pool"):
        there.delete_cluster(REGION, "mine")
    until(lambda: there.operation(REGION, second).done)


def test_another_that_never_ends_is_not_waited_for_for_ever(there: Container, gke: Gke) -> None:
    gke.set(hold=["CREATE_NODE_POOL"])
    there.create_pool(REGION, "mine", pool_request("np-0"))
    with pytest.raises(Busy):
        Container("proj", timing=QUICK, busy_s=0.2).create_pool(REGION, "mine", pool_request("np-1"))


def test_a_stockout_is_how_the_operation_ends_and_its_pool_stays(there: Container, gke: Gke) -> None:
    gke.set(stockouts=[ZONE])
    name = make_pool(there)
    assert isinstance(failure_of(there.operation(REGION, name)), StockedOut)
    assert isinstance(there.why(REGION, "mine", "np-0"), StockedOut)
    pool = there.pool(REGION, "mine", "np-0")
    assert (pool.state, pool.conditions) == ("ERROR", ("GCE_STOCKOUT",))


def test_quota_in_time_and_late(there: Container, gke: Gke) -> None:
    gke.set(quotas={"CT5LP/us-east5": 8})
    with pytest.raises(QuotaExhausted, match="TPUS_PER_TPU_FAMILY"):
        there.create_pool(REGION, "mine", pool_request())
    gke.set(late_quotas=True)
    make_pool(there)
    assert isinstance(there.why(REGION, "mine", "np-0"), QuotaExhausted)
    gke.set(quotas={"CPUS/us-east5": 16})
    with pytest.raises(QuotaExhausted, match="is short '16.0'"):
        there.create_cluster(REGION, cluster_request("second"))


def test_reservations_that_are_not_there_or_used_up(there: Container, gke: Gke) -> None:
    affinity = {
        "consume_reservation_type": "SPECIFIC_RESERVATION",
        "key": "compute.googleapis.com/reservation-name",
        "values": ["projects/p/reservations/r"],
    }
    for have in ({}, {"projects/p/reservations/r": 3}):
        gke.set(reservations=have)
        make_pool(there, pool_request(f"np-{len(have)}", reservation_affinity=affinity))
        assert isinstance(there.why(REGION, "mine", f"np-{len(have)}"), ReservationShort)
    gke.set(reservations={"projects/p/reservations/r": 4})
    make_pool(there, pool_request("np-2", reservation_affinity=affinity))
    told = there.pool(REGION, "mine", "np-2")
    assert (told.state, told.capacity, told.reservation) == (
        "RUNNING",
        "reservation",
        "projects/p/reservations/r",
    )


FLEX: dict[str, Any] = {
    "initial_node_count": 0,
    "config": {
        "machine_type": "ct5lp-hightpu-4t",
        "flex_start": True,
        "reservation_affinity": {"consume_reservation_type": "NO_RESERVATION"},
    },
    "autoscaling": {"enabled": True, "max_node_count": 4, "location_policy": "ANY"},
}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"initial_node_count": 16}, "invalid target size '16' .* gang mode of size '4'"),
        ({"placement_policy": {"tpu_topology": "2x2"}}, "can't be specified with single-host"),
        ({"config": {"machine_type": "ct6p"}}, "GCE_NOT_FOUND"),
        ({"name": "Np"}, "regex"),
        ({**FLEX, "queued_provisioning": {"enabled": True}}, "queued provisioning"),
        ({**FLEX, "autoscaling": {"enabled": True, "total_max_node_count": 4}}, "Maximum node count 0"),
        ({**FLEX, "management": {"auto_repair": True}}, "auto-repair"),
        ({**FLEX, "config": {**FLEX["config"], "spot": True}}, "neither spot"),
    ],
)
def test_the_service_refuses_what_cannot_be(there: Container, change: dict[str, Any], words: str) -> None:
    with pytest.raises(Refused, match=words):
        there.create_pool(REGION, "mine", {**pool_request(), **change})
    make_pool(there, {**pool_request(), **FLEX})


def test_places_and_permissions(gke: Gke) -> None:
    with pytest.raises(BadLocation, match="locations/us-west9"):
        container().clusters("us-west9")
    gke.set(denied=["CreateCluster"])
    with pytest.raises(PermissionDenied, match="container.clusters.create"):
        container().create_cluster(REGION, cluster_request())
    with pytest.raises(NotFound):
        container().cluster(REGION, "mine")


def test_a_zone_that_does_not_answer_is_not_an_empty_one(there: Container, gke: Gke) -> None:
    gke.set(unreachable=["europe-west4-a"])
    with pytest.raises(Unavailable, match="europe-west4-a did not answer"):
        there.clusters()


def test_deleting_twice_is_no_error(there: Container, gke: Gke) -> None:
    gke.set(slow={"DELETE_CLUSTER": 0.2, "DELETE_NODE_POOL": 0.2})
    make_pool(there)
    there.delete_pool(REGION, "mine", "np-0")
    there.delete_pool(REGION, "mine", "np-0")
    until(lambda: gke.pools("mine") == {"cpu": "RUNNING"})
    gke.fault("DeleteCluster", "lose_reply")
    there.delete_cluster(REGION, "mine")
    there.delete_cluster(REGION, "mine")
    until(lambda: gke.inventory() == [])
    there.delete_cluster(REGION, "mine")
    there.delete_pool(REGION, "mine", "np-0")


def test_labels_that_others_change_as_well(there: Container, gke: Gke) -> None:
    meddled = []

    def change(labels: Any) -> dict[str, str]:
        if not meddled:
            meddled.append(1)
            there.set_labels(REGION, "mine", lambda other: {**other, "theirs": "1"})
        return {**labels, "ours": "1"}

    there.set_labels(REGION, "mine", change)
    labels = there.cluster(REGION, "mine").labels
    assert (labels["theirs"], labels["ours"], labels["slicebench-lease"]) == ("1", "1", "cluster-mine-e1")


def test_versions(gke: Gke) -> None:
    told = container().versions(REGION)
    assert told.default in told.valid
    assert set(told.by_channel) == {"RAPID", "REGULAR", "STABLE"}


@pytest.mark.parametrize("answers", [True, False])
def test_a_dns_name_counts_where_it_answers_from_outside(gke: Gke, answers: bool) -> None:
    gke.set(dns_endpoints=True)
    dns = {"dns_endpoint_config": {"allow_external_traffic": answers}}
    _, operation = container().create_cluster(
        REGION, {**cluster_request(), "control_plane_endpoints_config": dns}
    )
    until(lambda: container().operation(REGION, operation).done)
    there = container().cluster(REGION, "mine")
    assert there.dns.endswith(".gke.goog") is answers
    assert there.endpoint
