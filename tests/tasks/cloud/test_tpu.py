"""The Cloud TPU client against the stand-in: what it asks, what it makes of answers, and of no answers."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Mapping
from dataclasses import replace

import pytest

from tasks.cloud.labels import labels_for
from tasks.cloud.timing import Timing
from tasks.cloud.tpu import CloudTpu
from tasks.cloud.tpu_errors import (
    AlreadyExists,
    Busy,
    Going,
    NotFound,
    PermissionDenied,
    QuotaExhausted,
    Refused,
    StockedOut,
    TpuError,
    Unavailable,
    Vanished,
)
from tasks.cloud.tpu_model import NodeRequest, QueuedRequest
from tasks.cloud.tpu_transport import ENDPOINT_VARIABLE
from tests.cloud.tpu.running import Cloud
from tests.waiting import until

QUICK = Timing(try_s=20.0, total_s=60.0, first_pause_s=0.01, longest_pause_s=0.1)
ZONE = "us-east5-b"
LABELS = labels_for("run-1-e1", "abc", "jan@here", 1_700_000_000.5)
REQUEST = NodeRequest("v6e-16", "v2-alpha-tpuv6e", LABELS, metadata={"ssh-keys": "jan:ssh-ed25519 AAAA"})


@pytest.fixture
def tpu(tpu_cloud: Cloud) -> CloudTpu:
    return CloudTpu("proj", timing=QUICK)


def ready(tpu: CloudTpu, name: str = "n1") -> None:
    until(lambda: tpu.node(ZONE, name).state == "READY")


def test_a_node_is_made_seen_and_deleted(tpu: CloudTpu, tpu_cloud: Cloud) -> None:
    made = tpu.create_node(ZONE, "n1", replace(REQUEST, tier="spot", network="net", tags=["a"]))
    assert (made.state, made.type, made.spot, made.labels) == ("CREATING", "v6e-16", True, LABELS)
    ready(tpu)
    node = tpu.node(ZONE, "n1")
    assert (node.uid, len(node.addresses), node.metadata) == (made.uid, 4, REQUEST.metadata)
    assert node.addresses[0].external is not None
    assert [one.name for one in tpu.nodes()] == ["n1"]
    [asked] = tpu_cloud.requests("CreateNode")
    assert asked["request"]["node"]["scheduling_config"] == {"spot": True}
    assert asked["request"]["node"]["network_config"] == {"network": "net", "enable_external_ips": True}
    tpu.delete_node(ZONE, "n1")
    tpu.delete_node(ZONE, "n1")  # while it is going
    until(lambda: tpu.nodes() == [])
    tpu.delete_node(ZONE, "n1")  # once it is gone


def test_slices_wait_in_the_queue_and_come_up(tpu: CloudTpu, tpu_cloud: Cloud) -> None:
    tpu_cloud.set(stockouts=[f"{ZONE}/v6e"])
    request = QueuedRequest(replace(REQUEST, tier="spot"), "q1", slices=2)
    made = tpu.create_queued(ZONE, "q1", request)
    assert (made.nodes, made.type, made.spot, made.labels) == (("q1-0", "q1-1"), "v6e-16", True, LABELS)
    until(lambda: tpu.queued_resource(ZONE, "q1").state == "WAITING_FOR_RESOURCES")
    tpu_cloud.set(stockouts=[])
    until(lambda: tpu.queued_resource(ZONE, "q1").state == "ACTIVE")
    assert [(node.name, node.queued, node.labels) for node in tpu.nodes(ZONE)] == [
        ("q1-0", "q1", LABELS),
        ("q1-1", "q1", LABELS),
    ]
    tpu.delete_queued(ZONE, "q1")
    until(lambda: not tpu.queued() and not tpu.nodes())


def test_times_tier_and_reservation_reach_the_request(tpu: CloudTpu, tpu_cloud: Cloud) -> None:
    reservation = f"projects/proj/locations/{ZONE}/reservations/r"
    tpu_cloud.set(reservations=[reservation])
    begin = datetime.datetime(2040, 1, 1, tzinfo=datetime.UTC)
    node = replace(REQUEST, tier="reserved", reservation=reservation)
    for after, until_time, key in [
        (begin, None, "valid_after_time"),
        (None, begin, "valid_until_time"),
        (begin, begin + datetime.timedelta(hours=1), "valid_interval"),
    ]:
        name = key.replace("_", "-")
        tpu.create_queued(ZONE, name, QueuedRequest(node, name, 1, after, until_time))
        asked = tpu_cloud.requests("CreateQueuedResource")[-1]["request"]["queued_resource"]
        assert list(asked["queueing_policy"]) == [key]
        assert (asked["reservation_name"], asked["guaranteed"]) == (reservation, {})
        assert asked["tpu"]["node_spec"][0]["node_id"] == name


def test_a_list_goes_over_pages_and_zones_and_never_takes_silence_for_nothing(
    tpu: CloudTpu,
    tpu_cloud: Cloud,
) -> None:
    for index in range(5):
        tpu.create_node(ZONE if index % 2 else "us-east5-a", f"n{index}", REQUEST)
    assert sorted(node.name for node in tpu.nodes()) == [f"n{index}" for index in range(5)]
    assert {node.name for node in tpu.nodes(ZONE)} == {"n1", "n3"}
    tpu_cloud.set(unreachable=["us-east5-a"])
    with pytest.raises(Unavailable, match="us-east5-a did not answer"):
        tpu.nodes()


@pytest.mark.parametrize(
    ("settings", "zone", "name", "change", "error", "words"),
    [
        ({}, "us-west4-a", "n1", {}, Refused, "v6e-16 was not found in zone us-west4-a"),
        ({}, ZONE, "n1", {"type": "v6e-17"}, Refused, "v6e-17 was not found"),
        ({}, ZONE, "n1", {"runtime_version": "v9"}, Refused, "runtime version v9"),
        ({}, ZONE, "1n", {}, Refused, "node id '1n' is invalid"),
        ({}, "us-mars1-a", "n1", {}, PermissionDenied, "may not exist"),
        ({"denied": ["CreateNode"]}, ZONE, "n1", {}, PermissionDenied, "roles/tpu.admin"),
        ({"quotas": {f"{ZONE}/v6e": 8}}, ZONE, "n1", {}, QuotaExhausted, "Limit: 8 in region us-east5"),
    ],
)
def test_what_cannot_be_made_is_told_by_what_to_do_next(
    tpu: CloudTpu,
    tpu_cloud: Cloud,
    settings: dict[str, object],
    zone: str,
    name: str,
    change: Mapping[str, str],
    error: type[TpuError],
    words: str,
) -> None:
    tpu_cloud.set(**settings)
    with pytest.raises(error, match=words):
        tpu.create_node(zone, name, replace(REQUEST, **change))  # type: ignore[arg-type]
    assert tpu_cloud.inventory() == []


def test_a_zone_without_room_is_told_after_the_node_has_vanished(tpu: CloudTpu, tpu_cloud: Cloud) -> None:
    tpu_cloud.set(stockouts=[ZONE])
    tpu.create_node(ZONE, "n1", REQUEST)
    until(lambda: tpu.nodes() == [])
    with pytest.raises(NotFound):
        tpu.node(ZONE, "n1")
    why = tpu.why_gone(ZONE, "n1")
    assert isinstance(why, StockedOut)
    assert "no more capacity" in str(why)


def test_why_it_is_gone_is_on_the_last_page_and_in_the_newest_operation(
    tpu: CloudTpu, tpu_cloud: Cloud
) -> None:
    tpu_cloud.set(quotas={}, stockouts=[ZONE])
    for name in ("n0", "n1", "n2", "n3"):
        with contextlib.suppress(StockedOut):  # on a busy machine it is gone before it is looked at
            tpu.create_node(ZONE, name, REQUEST)
        until(lambda: tpu.nodes() == [])
    assert isinstance(tpu.why_gone(ZONE, "n3"), StockedOut), "the stand-in tells two on a page"
    tpu_cloud.set(stockouts=[])
    tpu.create_node(ZONE, "n3", REQUEST)
    ready(tpu, "n3")
    tpu_cloud.vanish("n3")
    why = tpu.why_gone(ZONE, "n3")
    assert (type(why), "no operation says why" in str(why)) == (Vanished, True), (
        "that it failed before says nothing"
    )
    tpu_cloud.set(denied=["ListOperations"])
    assert "why cannot be told" in str(tpu.why_gone(ZONE, "n3"))


@pytest.mark.parametrize("labels", [LABELS, {}])
def test_a_name_that_is_going_is_taken_only_for_now(
    tpu: CloudTpu, tpu_cloud: Cloud, labels: Mapping[str, str]
) -> None:
    tpu_cloud.set(delete_s=60.0)
    tpu.create_node(ZONE, "n1", replace(REQUEST, labels=labels))
    tpu.create_queued(ZONE, "q1", QueuedRequest(replace(REQUEST, labels=labels), "q1", 2))
    tpu.delete_node(ZONE, "n1")
    tpu.delete_queued(ZONE, "q1")
    with pytest.raises(Going, match="n1 in us-east5-b is taken by one that is being deleted"):
        tpu.create_node(ZONE, "n1", REQUEST)
    with pytest.raises(Going, match="q1 in"):
        tpu.create_queued(ZONE, "q1", QueuedRequest(REQUEST, "q1", 2))


def test_what_had_the_name_and_went_this_moment_is_not_in_the_way(tpu: CloudTpu, tpu_cloud: Cloud) -> None:
    tpu_cloud.fault("CreateNode", "error", code="ALREADY_EXISTS", message="it exists, says who looked before")
    assert tpu.create_node(ZONE, "n1", REQUEST).labels == LABELS


def test_a_queued_resource_whose_node_s_name_is_taken_says_so(tpu: CloudTpu, tpu_cloud: Cloud) -> None:
    tpu.create_node(ZONE, "q1-0", REQUEST)
    with pytest.raises(AlreadyExists, match="nodes/q1-0' already exists"):
        tpu.create_queued(ZONE, "q1", QueuedRequest(REQUEST, "q1", 2))


def test_denied_is_not_missing(tpu: CloudTpu, tpu_cloud: Cloud) -> None:
    tpu_cloud.set(denied=["GetNode", "DeleteNode"])
    with pytest.raises(PermissionDenied):
        tpu.node(ZONE, "n1")
    with pytest.raises(PermissionDenied):
        tpu.delete_node(ZONE, "n1")
    with pytest.raises(PermissionDenied):
        CloudTpu("other", timing=QUICK).nodes()


@pytest.mark.parametrize("code", ["UNAVAILABLE", "DEADLINE_EXCEEDED", "INTERNAL"])
def test_reading_is_repeated_until_there_is_an_answer(tpu: CloudTpu, tpu_cloud: Cloud, code: str) -> None:
    tpu_cloud.fault("ListNodes", "error", code=code, times=3)
    assert tpu.nodes() == []
    assert len(tpu_cloud.requests("ListNodes")) == 4


def test_a_call_rate_is_waited_for_and_a_quota_is_not(tpu: CloudTpu, tpu_cloud: Cloud) -> None:
    rate = "Quota exceeded for quota metric 'Create requests' and limit 'Create requests per minute'"
    tpu_cloud.fault("CreateNode", "error", code="RESOURCE_EXHAUSTED", message=rate)
    tpu.create_node(ZONE, "n1", REQUEST)
    assert [one["outcome"] for one in tpu_cloud.requests("CreateNode")] == ["RESOURCE_EXHAUSTED", "OK"]
    tpu_cloud.set(quotas={f"{ZONE}/v6e": 16})
    with pytest.raises(QuotaExhausted):
        tpu.create_node(ZONE, "n2", REQUEST)
    assert len(tpu_cloud.requests("CreateNode")) == 3


@pytest.mark.parametrize(("action", "more"), [("lose_reply", {}), ("stall", {"seconds": 0.8})])
def test_a_create_whose_reply_is_lost_is_found_and_not_made_twice(
    tpu_cloud: Cloud,
    action: str,
    more: dict[str, float],
) -> None:
    tpu = CloudTpu("proj", timing=replace(QUICK, try_s=0.5))
    tpu_cloud.fault("CreateNode", action, **more)
    tpu_cloud.fault("CreateQueuedResource", action, **more)
    assert tpu.create_node(ZONE, "n1", REQUEST).labels == LABELS
    assert tpu.create_queued(ZONE, "q1", QueuedRequest(REQUEST, "q1", 2)).labels == LABELS
    assert sum(one.endswith("/n1") for one in tpu_cloud.inventory()) == 1


def test_a_taken_name_says_whose_it_is(tpu: CloudTpu, tpu_cloud: Cloud) -> None:
    tpu.create_node(ZONE, "n1", REQUEST)
    assert tpu.create_node(ZONE, "n1", REQUEST).name == "n1", "asked again by the same lease, it is ours"
    with pytest.raises(AlreadyExists, match="made already by jan-here's lease run-1-e1"):
        tpu.create_node(ZONE, "n1", replace(REQUEST, labels=labels_for("run-2-e1", "abc")))
    tpu.create_node(ZONE, "n2", replace(REQUEST, labels={}))
    with pytest.raises(AlreadyExists, match="not by slicebench"):
        tpu.create_node(ZONE, "n2", REQUEST)


def test_a_delete_that_is_refused_is_an_error(tpu: CloudTpu, tpu_cloud: Cloud) -> None:
    tpu.create_node(ZONE, "n1", REQUEST)
    tpu_cloud.set(undeletable=["n1"])
    with pytest.raises(Busy, match="maintenance"):
        tpu.delete_node(ZONE, "n1")
    tpu_cloud.set(undeletable=[])
    tpu_cloud.fault("DeleteNode", "lose_reply")
    tpu.delete_node(ZONE, "n1")
    until(lambda: tpu_cloud.inventory() == [])


def test_metadata_is_changed_after_whoever_is_at_it(tpu: CloudTpu, tpu_cloud: Cloud) -> None:
    tpu.create_node(ZONE, "n1", REQUEST)
    ready(tpu)
    tpu_cloud.set(update_s=0.3)
    tpu.set_metadata(ZONE, "n1", lambda there: {**there, "a": "1"})
    tpu.set_metadata(ZONE, "n1", lambda there: {**there, "b": "2"})
    assert tpu.node(ZONE, "n1").metadata == {**REQUEST.metadata, "a": "1", "b": "2"}
    asked = len(tpu_cloud.requests("UpdateNode"))
    tpu.set_metadata(ZONE, "n1", lambda there: there)
    assert len(tpu_cloud.requests("UpdateNode")) == asked, "nothing to change, nothing asked"


def test_host_keys_types_and_versions_are_told(tpu: CloudTpu, tpu_cloud: Cloud) -> None:
    with tpu_cloud.store.changing() as world:
        world["hosts"] = [{"address": f"127.0.1.{i}", "host_key": f"ssh-ed25519 KEY{i}"} for i in range(4)]
    tpu.create_node(ZONE, "n1", REQUEST)
    ready(tpu)
    assert tpu.guests(ZONE, "n1") == [{"ssh-ed25519": f"KEY{i}"} for i in range(4)]
    assert [one["hostname"] for one in tpu.guests(ZONE, "n1", "")] == [f"t1v-{i}-w-{i}" for i in range(4)]
    assert "v5litepod-8" in tpu.types(ZONE)
    assert "v4-8" not in tpu.types(ZONE)
    assert "v2-alpha-tpuv6e" in tpu.runtime_versions(ZONE)


def test_an_endpoint_elsewhere_is_not_spoken_to_in_the_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENDPOINT_VARIABLE, "example.com:80")
    with pytest.raises(Exception, match="not on this machine"):
        CloudTpu("proj").nodes()
