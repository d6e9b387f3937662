"""What GKE is asked for: every kind of pool, as the service takes it; and that it grows with what is asked for."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import Any

import pytest

from runtime.contract.errors import BadInput
from tasks.cloud.container_fields import message_of
from tasks.config.accelerators import accelerator
from tasks.config.cluster import ClusterConfig
from tasks.targets.cluster_requests import cluster_request, pool_request
from tasks.targets.cluster_size import most_cpu_nodes, pods_prefix
from tests.cloud.container import rules
from tests.cloud.container.leasing import config
from tests.cloud.container.messages import spec_of
from tests.tasks.config.test_accelerators import CASES, tpu_rows

LABELS = {"slicebench-lease": "cluster-x_proj-e1"}


def pool(wanted: ClusterConfig, **more: Any) -> dict[str, Any]:
    shape = wanted.shape
    assert shape is not None
    return pool_request("np-0", wanted, shape, LABELS, **more)


def accepted(request: dict[str, Any], zone: str) -> None:
    """Fails unless the stand-in's rules, which are GKE's, take the request."""
    from google.cloud import container_v1

    rules.node_pool(spec_of(container_v1.NodePool.wrap(message_of("pool", request))), [zone])


PLACES = {
    "v4-16": "us-central2-b",
    "v5litepod-16": "us-east5-b",
    "ct5lp-hightpu-1t": "us-east5-b",
    "ct5lp-hightpu-8t": "us-east5-b",
    "v5p-8": "us-east5-a",
    "v5p-128": "us-east5-a",
    "v6e-4": "us-east5-b",
    "v6e-256": "us-east5-b",
    "ct6e-standard-8t": "us-east5-b",
    "l4-1": "us-central1-a",
    "a100-40gb-8": "us-central1-a",
    "h100-80gb-8": "us-central1-a",
    "h200-141gb-8": "us-central1-a",
    "b200-8": "us-central1-a",
    "n2-standard-32-4": "us-central1-a",
}


@pytest.mark.parametrize("kind", PLACES)
@pytest.mark.parametrize("capacity", ["on_demand", "spot", "reservation", "flex_start"])
def test_the_service_takes_every_type_and_capacity(kind: str, capacity: str) -> None:
    zone = PLACES[kind]
    fields: dict[str, Any] = {"zone": zone, "type": kind, "capacity": capacity}
    if capacity == "reservation":
        fields["reservations"] = "r"
    if capacity == "flex_start" and kind.startswith(("v4", "n2")):
        with pytest.raises(ValueError, match="is not given as flex_start"):
            config(**fields)
        return
    accepted(pool(config(**fields)), zone)


def test_a_slice_of_several_hosts() -> None:
    request = pool(config(capacity="spot", max_run="12h"))
    assert request["initial_node_count"] == 4
    assert request["placement_policy"] == {"type": "COMPACT", "tpu_topology": "4x4"}
    assert request["config"]["spot"] is True
    assert request["config"]["max_run_duration"] == "43200s"
    assert request["config"]["resource_labels"] == LABELS
    assert request["locations"] == ["us-east5-b"]


def test_one_host_has_no_topology_to_ask_for() -> None:
    assert "placement_policy" not in pool(config(type="v6e-4"))


def test_flexible_capacity_comes_when_pods_ask_for_it() -> None:
    request = pool(config(capacity="flex_start", max_run="2h"))
    assert request["initial_node_count"] == 0
    assert request["autoscaling"] == {"enabled": True, "max_node_count": 4, "location_policy": "ANY"}
    assert request["management"]["auto_repair"] is False
    assert request["config"]["reservation_affinity"] == {"consume_reservation_type": "NO_RESERVATION"}


def test_gpus_come_with_their_driver() -> None:
    [gpu] = pool(config(type="a100-40gb-8", nodes=2))["config"]["accelerators"]
    assert (gpu["accelerator_type"], gpu["accelerator_count"]) == ("nvidia-tesla-a100", 8)
    assert gpu["gpu_driver_installation_config"] == {"gpu_driver_version": "LATEST"}


def test_a_policy_that_is_named_takes_the_place_of_compact() -> None:
    wanted = config(type="tpu7x-16", zone="us-east5-a", placement_policy="mine")
    assert pool(wanted)["placement_policy"] == {"policy_name": "mine", "tpu_topology": "2x2x2"}
    accepted(pool(wanted), "us-east5-a")


@pytest.mark.parametrize(
    ("fields", "path", "value"),
    [
        ({"private": True}, "private_cluster_config.enable_private_nodes", True),
        ({"private": True, "private_endpoint": True}, "private_cluster_config.enable_private_endpoint", True),
        (
            {"authorized_networks": "office=203.0.113.0/24"},
            "master_authorized_networks_config.cidr_blocks",
            [{"display_name": "office", "cidr_block": "203.0.113.0/24"}],
        ),
        ({"workload_identity": True}, "workload_identity_config.workload_pool", "proj.svc.id.goog"),
        ({"channel": "rapid"}, "release_channel.channel", "RAPID"),
        ({"version": "1.33"}, "initial_cluster_version", "1.33"),
        ({"network": "n"}, "network", "n"),
        ({"subnetwork": "s"}, "subnetwork", "s"),
        ({"pods_range": "pods"}, "ip_allocation_policy.cluster_secondary_range_name", "pods"),
        ({"pods_range": "10.0.0.0/14"}, "ip_allocation_policy.cluster_ipv4_cidr_block", "10.0.0.0/14"),
        ({"services_range": "s"}, "ip_allocation_policy.services_secondary_range_name", "s"),
        ({"services_range": "10.8.0.0/20"}, "ip_allocation_policy.services_ipv4_cidr_block", "10.8.0.0/20"),
        ({"autoprovision": 64, "slices": 0}, "autoscaling.enable_node_autoprovisioning", True),
        ({"maintenance": "03:00"}, "maintenance_policy.window.daily_maintenance_window.start_time", "03:00"),
        (
            {"private": True, "global_access": True},
            "private_cluster_config.master_global_access_config.enabled",
            True,
        ),
        ({}, "control_plane_endpoints_config.dns_endpoint_config.allow_external_traffic", True),
        (
            {"private": True, "private_endpoint": True},
            "control_plane_endpoints_config.dns_endpoint_config.allow_external_traffic",
            False,
        ),
        (
            {"dns_access": False},
            "control_plane_endpoints_config.dns_endpoint_config.allow_external_traffic",
            False,
        ),
        ({"pods_range": "/14"}, "ip_allocation_policy.cluster_ipv4_cidr_block", "/14"),
        ({"cluster_fields": {"description": "ours"}}, "description", "ours"),
        ({}, "locations", ["us-east5-b"]),
        ({}, "resource_labels", LABELS),
    ],
)
def test_each_field_changes_what_is_asked_for(fields: dict[str, Any], path: str, value: Any) -> None:
    request: Any = cluster_request("x", config(**fields), "proj", LABELS)
    message_of("cluster", request)
    for step in path.split("."):
        request = request[step]
    assert request == value


@pytest.mark.parametrize(
    ("fields", "path", "value"),
    [
        ({"service_account": "a@b"}, "config.service_account", "a@b"),
        ({"workload_identity": True}, "config.workload_metadata_config.mode", "GKE_METADATA"),
        ({"image_streaming": True}, "config.gcfs_config.enabled", True),
        ({"cpu_pool": {"machine_type": "n2-standard-8"}}, "config.machine_type", "n2-standard-8"),
        ({"cpu_pool": {"nodes": 3}}, "initial_node_count", 3),
        ({"cpu_pool": {"disk_gb": 200}}, "config.disk_size_gb", 200),
        ({"cpu_pool": {"disk_type": "pd-standard"}}, "config.disk_type", "pd-standard"),
        ({"cpu_pool": {"most": 7}}, "autoscaling.total_max_node_count", 7),
        ({"cpu_pool_fields": {"config.labels.team": "a"}}, "config.labels", {"team": "a"}),
    ],
)
def test_each_field_of_the_cpu_machines_does_too(fields: dict[str, Any], path: str, value: Any) -> None:
    request: Any = cluster_request("x", config(**fields), "proj", LABELS)["node_pools"][0]
    for step in path.split("."):
        request = request[step]
    assert request == value


def test_fields_that_are_passed_through_reach_the_pools_that_they_are_for() -> None:
    wanted = config(pool_fields={"config.labels.a": "b", "network_config.enable_private_nodes": "true"})
    request = pool(wanted)
    assert (request["config"]["labels"], request["network_config"]) == (
        {"a": "b"},
        {"enable_private_nodes": True},
    )
    [cpu] = cluster_request("x", wanted, "proj", LABELS)["node_pools"]
    assert "labels" not in cpu["config"]
    with pytest.raises(BadInput, match="pool_fields nodes: NodePool has no field 'nodes'"):
        pool(config(pool_fields={"nodes": "1"}))


def test_a_thousand_machines_get_addresses_and_controllers() -> None:
    small, large = config(slices=1), config(type="v5litepod-256", slices=16)
    assert large.machines == 1024
    assert (most_cpu_nodes(small), most_cpu_nodes(large)) == (4, 21)
    # 1024 x 32 addresses for TPU machines and 21 x 256 for the others, and half as many again: 57k of 65k.
    assert (pods_prefix(small), pods_prefix(large)) == (19, 16)
    request = cluster_request("x", large, "proj", LABELS)
    assert request["ip_allocation_policy"] == {"use_ip_aliases": True, "cluster_ipv4_cidr_block": "/16"}
    assert request["node_pools"][0]["autoscaling"]["total_max_node_count"] == 21


def test_more_nodes_than_a_subnetwork_has_addresses_get_one_of_their_own() -> None:
    large = config(type="v5p-17920", zone="us-east5-a", slices=3)
    assert large.machines == 6720
    addresses = cluster_request("x", large, "proj", LABELS)["ip_allocation_policy"]
    assert (addresses["create_subnetwork"], addresses["node_ipv4_cidr_block"]) == (True, "/18")
    assert addresses["cluster_ipv4_cidr_block"] == "/13"
    given = cluster_request("x", config(type="v5p-17920", slices=3, subnetwork="s"), "proj", LABELS)
    assert "create_subnetwork" not in given["ip_allocation_policy"]


def every_type() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields each type that we claim, with what makes it complete: tables, and single hosts besides."""
    for row in tpu_rows():
        yield row["name"], {"placement_policy": "p"} if row["workload_policy"] == "yes" else {}
    with (CASES / "gpu_cpu_types.csv").open() as file:
        yield from ((row["name"], {}) for row in csv.DictReader(file))
    for name in ("v5litepod-1", "v5litepod-4", "ct5lp-hightpu-8t", "ct6e-standard-8t", "tpu7x-standard-1t"):
        yield name, {}


def test_every_type_is_asked_for_as_it_is_or_refused_with_the_fix() -> None:
    refused = set()
    for name, more in every_type():
        shape = accelerator(name)
        try:
            request = pool(config(type=name, **more))
        except ValueError as error:
            assert "by Cluster Toolkit" in str(error)
            refused.add(name)
            continue
        assert request["config"]["machine_type"] == shape.machine_type, name
        assert request["initial_node_count"] == shape.hosts, name
        asked = request.get("placement_policy", {})
        several = shape.kind == "tpu" and shape.hosts > 1
        assert asked.get("tpu_topology") == (shape.topology if several else None), name
        assert ("policy_name" in asked) == bool(more and several), name
        gpus = [
            (one["accelerator_type"], one["accelerator_count"])
            for one in request["config"].get("accelerators", [])
        ]
        assert gpus == ([(shape.label, shape.chips_per_host)] if shape.kind == "gpu" else []), name
    assert refused == {"gb200-4", "gb200-4-nolssd"}


@pytest.mark.parametrize("kind", ["h100-80gb-8", "h100-mega-80gb-8", "h200-141gb-8", "b200-8", "a100-40gb-8"])
@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("networks", ["auto", "none"])
def test_gpus_of_several_hosts_have_their_networks_or_are_refused(
    kind: str, nodes: int, networks: str
) -> None:
    fields = {"type": kind, "zone": "us-central1-a", "nodes": nodes, "gpu_networks": networks}
    if kind.startswith("h100") and nodes > 1 and networks == "auto":
        with pytest.raises(ValueError, match="for which GKE makes no networks"):
            config(**fields)
        return
    request = pool(config(**fields))
    accepted(request, "us-central1-a")
    joined = kind in ("h200-141gb-8", "b200-8") and networks == "auto"
    assert request.get("network_config", {}) == ({"accelerator_network_profile": "auto"} if joined else {})
    assert request["config"].get("labels", {}).get("cloud.google.com/gke-networking-dra-driver") == (
        "true" if joined else None
    )


@pytest.mark.parametrize("kind", ["v5litepod-16", "h200-141gb-8", "n2-standard-32-4"])
def test_what_is_apart_is_found_by_its_label_and_keeps_others_off(kind: str) -> None:
    wanted = config(type=kind, zone=PLACES.get(kind, "us-east5-b"))
    request = pool(wanted, apart=True)
    accepted(request, wanted.zone)
    name, value = next(iter(LABELS.items()))
    assert request["config"]["labels"][name] == value
    assert request["config"]["taints"] == [{"key": name, "value": value, "effect": "NO_SCHEDULE"}]
    assert "taints" not in pool(wanted)["config"]
    assert name not in pool(wanted)["config"].get("labels", {})
