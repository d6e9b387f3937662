"""What GKE's API is asked for: clusters and node pools as plain data, from a config alone. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tasks.cloud.container_fields import with_fields
from tasks.config import duration
from tasks.config.accelerators import Accelerator
from tasks.config.cluster import ClusterConfig

CPU_POOL = "cpu"
_PODS_ON_CPU, _PODS_ON_TPU, _PODS_ON_GPU = 110, 15, 64
_ADDRESSES = {_PODS_ON_CPU: 256, _PODS_ON_TPU: 32, _PODS_ON_GPU: 128}
"""GKE gives each node twice the addresses of the pods that it may have, in a power of two."""
_NODES_A_CONTROLLER = 60
"""One CPU machine more for so many accelerators' machines: controllers take memory for what they watch."""
_SCOPES = ["https://www.googleapis.com/auth/cloud-platform"]


def pool_name(index: int) -> str:
    """Returns the name of the node pool of a slice."""
    return f"np-{index}"


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
        "ip_allocation_policy": _addresses(config),
        "network_config": {"datapath_provider": "ADVANCED_DATAPATH"},
        "addons_config": {"gcs_fuse_csi_driver_config": {"enabled": True}},
        "autoscaling": _autoscaling(config),
        "node_pools": [cpu_pool_request(config, labels)],
    }
    for field in ("network", "subnetwork"):
        if value := getattr(config, field):
            request[field] = value
    if config.version:
        request["initial_cluster_version"] = config.version
    if config.workload_identity:
        request["workload_identity_config"] = {"workload_pool": f"{project}.svc.id.goog"}
    if config.private:
        request["private_cluster_config"] = {
            "enable_private_nodes": True,
            "enable_private_endpoint": config.private_endpoint,
        }
    if config.private or config.authorized_networks:
        blocks = [_block(one) for one in config.authorized_networks]
        request["master_authorized_networks_config"] = {"enabled": True, "cidr_blocks": blocks}
    return with_fields("cluster", request, config.cluster_fields, "cluster_fields")


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
        },
        "autoscaling": {
            "enabled": True,
            "total_min_node_count": pool.nodes,
            "total_max_node_count": most_cpu_nodes(config),
            "location_policy": "BALANCED",
        },
        "management": {"auto_repair": True, "auto_upgrade": True},
        "max_pods_constraint": {"max_pods_per_node": _PODS_ON_CPU},
    }
    return with_fields("pool", request, config.cpu_pool_fields, "cpu_pool_fields")


def pool_request(
    name: str, config: ClusterConfig, shape: Accelerator, labels: Mapping[str, str], reservation: str = ""
) -> dict[str, Any]:
    """Returns the request for a node pool: one TPU slice, or all GPU or CPU machines."""
    nodes = shape.hosts if shape.kind == "tpu" else config.machines
    pods = {"tpu": _PODS_ON_TPU, "gpu": _PODS_ON_GPU, "cpu": _PODS_ON_CPU}[shape.kind]
    flex = config.capacity == "flex_start"
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
        "initial_node_count": 0 if flex else nodes,
        "config": node,
        # A slice is repaired as a whole by whoever runs on it; flexible capacity cannot be repaired at all.
        "management": {"auto_repair": not flex, "auto_upgrade": True},
        "max_pods_constraint": {"max_pods_per_node": pods},
    }
    if flex:
        request["autoscaling"] = {"enabled": True, "max_node_count": nodes, "location_policy": "ANY"}
    if shape.kind == "tpu" and shape.hosts > 1:
        request["placement_policy"] = (
            {"policy_name": config.placement_policy, "tpu_topology": shape.topology}
            if config.placement_policy
            else {"type": "COMPACT", "tpu_topology": shape.topology}
        )
    return with_fields("pool", request, config.pool_fields, "pool_fields")


def most_cpu_nodes(config: ClusterConfig) -> int:
    """Returns how many CPU machines there may be: more, where more has to be watched."""
    if config.cpu_pool.most is not None:
        return config.cpu_pool.most
    return max(config.cpu_pool.nodes, 3 + math.ceil(_machines_at_most(config) / _NODES_A_CONTROLLER))


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


def _addresses(config: ClusterConfig) -> dict[str, Any]:
    """Returns where addresses come from: enough for every node there may be, and half as many again."""
    policy: dict[str, Any] = {"use_ip_aliases": True}
    if config.pods_range and "/" not in config.pods_range:
        policy["cluster_secondary_range_name"] = config.pods_range
    else:
        policy["cluster_ipv4_cidr_block"] = config.pods_range or f"/{pods_prefix(config)}"
    if config.services_range and "/" not in config.services_range:
        policy["services_secondary_range_name"] = config.services_range
    elif config.services_range:
        policy["services_ipv4_cidr_block"] = config.services_range
    return policy


def pods_prefix(config: ClusterConfig) -> int:
    """Returns the length of the prefix of a range that has addresses for the pods of every node."""
    shape = config.shape
    pods = (
        _PODS_ON_TPU
        if shape and shape.kind == "tpu"
        else _PODS_ON_GPU
        if shape and shape.kind == "gpu"
        else 110
    )
    wanted = _machines_at_most(config) * _ADDRESSES[pods] + most_cpu_nodes(config) * _ADDRESSES[_PODS_ON_CPU]
    return min(19, 32 - math.ceil(math.log2(wanted * 1.5)))


def _machines_at_most(config: ClusterConfig) -> int:
    shape = config.shape
    if config.autoprovision and shape is not None:
        return math.ceil(config.autoprovision / shape.chips_per_host)
    return config.machines


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


def _block(text: str) -> dict[str, str]:
    name, _, cidr = text.rpartition("=")
    return {"display_name": name or cidr, "cidr_block": cidr}
