"""What GKE's API is asked for: clusters and node pools as plain data, from a config alone. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runtime.contract.errors import BadInput
from tasks.cloud.container_fields import Kind, with_fields
from tasks.cloud.labels import LEASE
from tasks.config import duration
from tasks.config.accelerators import Accelerator
from tasks.config.cluster import ClusterConfig
from tasks.targets.cluster_size import (
    PODS_ON_CPU,
    address_policy,
    most_cpu_nodes,
    pods_on,
)

CPU_POOL = "cpu"
_SCOPES = ["https://www.googleapis.com/auth/cloud-platform"]
_PASSED: Mapping[str, tuple[Kind, Mapping[str, str]]] = {
    "cluster_fields": ("cluster", {"node_pools": "cpu_pool_fields or pool_fields"}),
    "cpu_pool_fields": ("pool", {"config.machine_type": "cpu_pool", "config.disk_size_gb": "cpu_pool"}),
    "pool_fields": (
        "pool",
        {
            "config.machine_type": "type",
            "config.spot": "capacity",
            "config.flex_start": "capacity",
            "config.max_run_duration": "max_run",
            "initial_node_count": "slices or nodes",
        },
    ),
}
"""What fields of the API are put into, and those that are said elsewhere: what is there would differ from the plan."""


def pool_name(index: int, prefix: str = "np") -> str:
    """Returns the name of the node pool of a slice."""
    return f"{prefix}-{index}"


def cluster_request(
    name: str, config: ClusterConfig, project: str, labels: Mapping[str, str]
) -> dict[str, Any]:
    """Returns the request for the cluster with its CPU machines; accelerators follow, a node pool at a time.

    Raises BadInput for fields that the API does not have.
    """
    request: dict[str, Any] = {
        "name": name,
        "locations": [config.zone],
        "resource_labels": dict(labels),
        "release_channel": {"channel": config.channel.upper()},
        "ip_allocation_policy": address_policy(config),
        "network_config": {"datapath_provider": "ADVANCED_DATAPATH"},
        "addons_config": {"gcs_fuse_csi_driver_config": {"enabled": True}},
        "autoscaling": _autoscaling(config),
        "node_pools": [cpu_pool_request(config, labels)],
        **_access(config),
    }
    for field in ("network", "subnetwork"):
        if value := getattr(config, field):
            request[field] = value
    if config.version:
        request["initial_cluster_version"] = config.version
    if config.maintenance:
        window = {"daily_maintenance_window": {"start_time": config.maintenance}}
        request["maintenance_policy"] = {"window": window}
    if config.workload_identity:
        request["workload_identity_config"] = {"workload_pool": f"{project}.svc.id.goog"}
    return passed_through("cluster_fields", request, config.cluster_fields)


def cpu_pool_request(config: ClusterConfig, labels: Mapping[str, str]) -> dict[str, Any]:
    """Returns the request for the machines that controllers run on."""
    pool = config.cpu_pool
    request: dict[str, Any] = {
        "name": CPU_POOL,
        "initial_node_count": pool.nodes,
        "config": {
            **_node(config, labels),
            "machine_type": pool.machine_type,
            "disk_size_gb": pool.disk_gb,
            **({"disk_type": pool.disk_type} if pool.disk_type else {}),
        },
        "autoscaling": {
            "enabled": True,
            "total_min_node_count": pool.nodes,
            "total_max_node_count": most_cpu_nodes(config),
            "location_policy": "BALANCED",
        },
        "management": {"auto_repair": True, "auto_upgrade": True},
        "max_pods_constraint": {"max_pods_per_node": PODS_ON_CPU},
    }
    return passed_through("cpu_pool_fields", request, config.cpu_pool_fields)


def pool_request(
    name: str,
    config: ClusterConfig,
    shape: Accelerator,
    labels: Mapping[str, str],
    reservation: str = "",
    *,
    apart: bool = False,
) -> dict[str, Any]:
    """Returns the request for a node pool: one TPU slice, or all GPU or CPU machines.

    `apart`: pods of others are kept off its nodes, which are labelled so that ours find them.
    """
    nodes = shape.hosts if shape.kind == "tpu" else config.machines
    flex = config.capacity == "flex_start"
    grows = flex or config.autoscaling
    node = {**_node(config, labels), "machine_type": shape.machine_type, **_paid(config, reservation)}
    if shape.kind == "gpu":
        node["accelerators"] = [
            {
                "accelerator_type": shape.label,
                "accelerator_count": shape.chips_per_host,
                "gpu_driver_installation_config": {"gpu_driver_version": "LATEST"},
            }
        ]
    request: dict[str, Any] = {
        "name": name,
        "locations": [config.zone],
        "initial_node_count": 0 if grows else nodes,
        "config": node,
        # A slice is repaired as a whole by whoever runs on it; flexible capacity cannot be repaired at all.
        "management": {"auto_repair": not flex, "auto_upgrade": True},
        "max_pods_constraint": {"max_pods_per_node": pods_on(shape.kind)},
    }
    if config.joins_gpus:
        request["network_config"] = {"accelerator_network_profile": "auto"}
        node["labels"] = {"cloud.google.com/gke-networking-dra-driver": "true"}
    if apart:
        node["labels"] = {**node.get("labels", {}), LEASE: labels[LEASE]}
        node["taints"] = [{"key": LEASE, "value": labels[LEASE], "effect": "NO_SCHEDULE"}]
    if grows:
        request["autoscaling"] = {"enabled": True, "max_node_count": nodes, "location_policy": "ANY"}
    if shape.kind == "tpu" and shape.hosts > 1:
        request["placement_policy"] = (
            {"policy_name": config.placement_policy, "tpu_topology": shape.topology}
            if config.placement_policy
            else {"type": "COMPACT", "tpu_topology": shape.topology}
        )
    return passed_through("pool_fields", request, config.pool_fields)


def passed_through(
    field: str, request: Mapping[str, Any], given: Mapping[str, Any], flag: str = ""
) -> dict[str, Any]:
    """Returns a request with the API's fields that `field` of a config names. Raises BadInput, naming `flag`."""
    kind, elsewhere = _PASSED[field]
    for path in given:
        if path in elsewhere:
            raise BadInput(f"{flag or field} {path}: that is said by {elsewhere[path]}", fix="leave it out")
    return with_fields(kind, request, given, flag or field)


def check_requests(name: str, config: ClusterConfig, project: str, labels: Mapping[str, str]) -> None:
    """Builds every request without asking: raises BadInput for what the API could not read."""
    cluster_request(name, config, project, labels)
    shape = config.shape
    if shape is None:
        passed_through("pool_fields", {}, config.pool_fields)
    else:
        pool_request(pool_name(0, config.pool_prefix), config, shape, labels)


def dead_man(config: ClusterConfig) -> str:
    """Returns what ends accelerators when everybody else is dead."""
    return f"its machines go {config.max_run} after they came; the pool stays" if config.max_run else "none"


def _node(config: ClusterConfig, labels: Mapping[str, str]) -> dict[str, Any]:
    node: dict[str, Any] = {
        "resource_labels": dict(labels),
        "oauth_scopes": _SCOPES,
        "gvnic": {"enabled": True},
    }
    if config.service_account:
        node["service_account"] = config.service_account
    if config.workload_identity:
        node["workload_metadata_config"] = {"mode": "GKE_METADATA"}
    if config.image_streaming:
        node["gcfs_config"] = {"enabled": True}
    return node


def _paid(config: ClusterConfig, reservation: str) -> dict[str, Any]:
    """Returns the fields of a node that say how it is paid for, and for how long."""
    paid: dict[str, Any] = {}
    match config.capacity:
        case "spot":
            paid["spot"] = True
        case "reservation":
            paid["reservation_affinity"] = {
                "consume_reservation_type": "SPECIFIC_RESERVATION",
                "key": "compute.googleapis.com/reservation-name",
                "values": [reservation or config.reservations[0]],
            }
        case "flex_start":
            paid["flex_start"] = True
            paid["reservation_affinity"] = {"consume_reservation_type": "NO_RESERVATION"}
    if config.max_run:
        paid["max_run_duration"] = f"{duration.seconds(config.max_run):.0f}s"
    return paid


def _autoscaling(config: ClusterConfig) -> dict[str, Any]:
    """Returns how the cluster grows by itself: by whole node pools where that is asked for."""
    profile = {"autoscaling_profile": "OPTIMIZE_UTILIZATION"}
    shape = config.shape
    if not config.autoprovision or shape is None:
        return profile
    limits = [
        {"resource_type": "cpu", "minimum": 1, "maximum": 1_000_000},
        {"resource_type": "memory", "minimum": 1, "maximum": 10_000_000},
    ]
    if shape.label:
        limits.append({"resource_type": shape.label, "minimum": 0, "maximum": config.autoprovision})
    return {
        **profile,
        "enable_node_autoprovisioning": True,
        "resource_limits": limits,
        "autoprovisioning_locations": [config.zone],
        "autoprovisioning_node_pool_defaults": {
            "oauth_scopes": _SCOPES,
            "management": {"auto_repair": True, "auto_upgrade": True},
            **({"service_account": config.service_account} if config.service_account else {}),
        },
    }


def _access(config: ClusterConfig) -> dict[str, Any]:
    """Returns who reaches the control plane, and whether nodes have addresses that everybody sees."""
    access: dict[str, Any] = {
        "control_plane_endpoints_config": {"dns_endpoint_config": {"allow_external_traffic": config.by_dns}}
    }
    if config.private:
        access["private_cluster_config"] = {
            "enable_private_nodes": True,
            "enable_private_endpoint": config.private_endpoint,
            **({"master_global_access_config": {"enabled": True}} if config.global_access else {}),
        }
    if config.private or config.authorized_networks:
        blocks = [_block(one) for one in config.authorized_networks]
        access["master_authorized_networks_config"] = {"enabled": True, "cidr_blocks": blocks}
    return access


def _block(text: str) -> dict[str, str]:
    name, _, cidr = text.rpartition("=")
    return {"display_name": name or cidr, "cidr_block": cidr}
