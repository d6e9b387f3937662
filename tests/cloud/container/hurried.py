"""For tests: GKE's client in a hurry, and requests for small clusters and pools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks.cloud.container import Container
from tasks.cloud.timing import Timing

REGION, ZONE = "us-east5", "us-east5-b"
QUICK = Timing(try_s=20.0, total_s=60.0, first_pause_s=0.01, longest_pause_s=0.1)


def container() -> Container:
    """Returns the client of the stand-in's project."""
    return Container("proj", timing=QUICK, busy_s=60.0)


def cluster_request(name: str = "mine", labels: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Returns a request for a cluster with one CPU machine."""
    pool = {"name": "cpu", "initial_node_count": 1, "config": {"machine_type": "e2-standard-16"}}
    return {
        "name": name,
        "locations": [ZONE],
        "resource_labels": dict(labels or {}),
        "node_pools": [pool],
    }


def pool_request(
    name: str = "np-0", labels: Mapping[str, str] | None = None, **config: Any
) -> dict[str, Any]:
    """Returns a request for a node pool: a v5e slice of 4 hosts."""
    return {
        "name": name,
        "initial_node_count": 4,
        "config": {"machine_type": "ct5lp-hightpu-4t", "resource_labels": dict(labels or {}), **config},
        "placement_policy": {"type": "COMPACT", "tpu_topology": "4x4"},
    }
