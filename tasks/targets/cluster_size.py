"""What of a cluster grows with its machines: addresses of nodes and pods, CPU machines for controllers. Pure."""

from __future__ import annotations

import math
from typing import Any

from tasks.config.accelerators import Kind
from tasks.config.cluster import ClusterConfig

PODS_ON_CPU = 110
_PODS: dict[Kind, int] = {"tpu": 15, "gpu": 64, "cpu": PODS_ON_CPU}
_ADDRESSES: dict[Kind, int] = {"tpu": 32, "gpu": 128, "cpu": 256}
"""GKE gives each node twice the addresses of the pods that it may have, in a power of two."""
_NODES_A_CONTROLLER = 60
"""One CPU machine more for so many accelerators' machines: controllers take memory for what they watch."""
_SPARE = 1.5
"""Half as many addresses again: a node pool that is replaced is there twice for a while, and upgrades add nodes."""
_USUAL_SUBNET = 4096
"""Addresses of the subnetwork that a network has in each region when nobody says more (a /20)."""
_LARGEST_RANGE = 9


def pods_on(kind: Kind) -> int:
    """Returns how many pods a machine may have."""
    return _PODS[kind]


def most_cpu_nodes(config: ClusterConfig) -> int:
    """Returns how many CPU machines there may be: more, where more has to be watched."""
    if config.cpu_pool.most is not None:
        return config.cpu_pool.most
    return max(config.cpu_pool.nodes, 3 + math.ceil(machines_at_most(config) / _NODES_A_CONTROLLER))


def keeps_room(config: ClusterConfig, there: int) -> bool:
    """Whether CPU machines may stay as many as there may be now: slices that were given back may come again."""
    return config.cpu_pool.most is None and not config.slices and there >= most_cpu_nodes(config)


def machines_at_most(config: ClusterConfig) -> int:
    """Returns how many machines there may be beside the CPU machines."""
    shape = config.shape
    if config.autoprovision and shape is not None:
        return math.ceil(config.autoprovision / shape.chips_per_host)
    return config.machines


def address_policy(config: ClusterConfig) -> dict[str, Any]:
    """Returns where addresses come from: enough for every node there may be, and half as many again.

    More nodes than a network's usual subnetwork has addresses for get one of their own, which goes with the cluster.
    """
    policy: dict[str, Any] = {"use_ip_aliases": True}
    if config.pods_range and "/" not in config.pods_range:
        policy["cluster_secondary_range_name"] = config.pods_range
    else:
        policy["cluster_ipv4_cidr_block"] = config.pods_range or f"/{pods_prefix(config)}"
    if config.services_range and "/" not in config.services_range:
        policy["services_secondary_range_name"] = config.services_range
    elif config.services_range:
        policy["services_ipv4_cidr_block"] = config.services_range
    if config.subnetwork is None and _nodes(config) * _SPARE > _USUAL_SUBNET:
        policy |= {"create_subnetwork": True, "node_ipv4_cidr_block": f"/{_prefix(_nodes(config))}"}
    return policy


def pods_prefix(config: ClusterConfig) -> int:
    """Returns the length of the prefix of a range that has addresses for the pods of every node."""
    shape = config.shape
    of_each = _ADDRESSES[shape.kind if shape else "cpu"]
    wanted = machines_at_most(config) * of_each + most_cpu_nodes(config) * _ADDRESSES["cpu"]
    return min(19, _prefix(wanted))


def _nodes(config: ClusterConfig) -> int:
    return machines_at_most(config) + most_cpu_nodes(config)


def _prefix(addresses: int) -> int:
    return max(_LARGEST_RANGE, 32 - math.ceil(math.log2(addresses * _SPARE)))
