"""The stand-in's memory: as Cloud TPU's, one JSON file under a lock, with clusters and their operations in it."""

from __future__ import annotations

import copy
import json
import time
from typing import Any

from tests.cloud.project.memory import PARTS
from tests.cloud.project.memory import SETTINGS as OF_PROJECT
from tests.cloud.tpu import store as shared

World = dict[str, Any]
"""born, settings, faults, clusters (with their pools), operations, next: everything there is."""

MUTATING = frozenset(
    {
        "CreateCluster",
        "UpdateCluster",
        "DeleteCluster",
        "CreateNodePool",
        "DeleteNodePool",
        "SetMaintenancePolicy",
        "SetNodePoolSize",
        "SetNodePoolAutoscaling",
        "SetNodePoolManagement",
        "UpdateNodePool",
        "SetLabels",
        "InsertResourcePolicy",
        "DeleteResourcePolicy",
        *(f"{verb}{kind}" for verb in ("Insert", "Patch", "Delete") for kind in ("Network", "Subnetwork")),
        *(f"{verb}{kind}" for verb in ("Insert", "Patch", "Delete") for kind in ("Router", "Firewall")),
        "ExpandIpCidrRangeSubnetwork",
        "SetPrivateIpGoogleAccessSubnetwork",
        *(f"{verb}{kind}" for verb in ("Create", "Patch", "Delete") for kind in ("ServiceAccount", "Bucket")),
        *(
            f"{verb}{kind}"
            for verb in ("Create", "Patch", "Delete")
            for kind in ("Repository", "Tensorboard")
        ),
        "EnableServiceAccount",
        "SetProjectPolicy",
        "SetAccountPolicy",
        "SetBucketPolicy",
        "EnableServices",
    }
)

SETTINGS: dict[str, Any] = {
    "projects": ["proj"],
    "pending_s": 0.01,  # an operation from PENDING to RUNNING
    "create_cluster_s": 0.05,
    "create_pool_s": 0.05,
    "delete_s": 0.05,
    "change_s": 0.02,  # labels, sizes
    "slow": {},  # type of operation → seconds, instead of the above
    "hold": [],  # types of operations that stay RUNNING until this is changed
    "operations_at_once": 1,  # of one cluster
    "stockouts": [],  # "zone" or "zone/machine type"
    "only_room_for": None,  # pools of accelerators that the zones have room for in all
    "quotas": {},  # "CPUS/region" → CPUs, "CT6E/region" (any TPU family) → chips
    "late_quotas": False,  # quotas of TPUs show when the operation ends, not when it is asked for
    "reservations": {},  # name, or projects/p/reservations/name → machines
    "broken_pools": [],  # names of pools that end as RUNNING_WITH_ERROR
    "failing_clusters": [],  # names of clusters whose creation ends in ERROR
    "denied": [],  # methods that the caller may not use
    "unreachable": [],  # zones that lists leave out
    "dns_endpoints": False,  # control planes have DNS names, which nothing here serves
    "failing_policies": "",  # with what the making of a resource policy ends
    "undeletable": [],  # names whose deletion is refused
    "faster_updates": 0,  # so many changes of clusters and pools meet another's first
    # What is behind each cluster: None: nothing; else a Kubernetes stand-in with these settings (its settings.py), and
    # `without` (what is not installed in it) and `faults` (that wait from its beginning).
    "kubernetes": None,
    **OF_PROJECT,
}


class Store(shared.Store):
    """State in a folder: `world.json`, `requests.jsonl` and a lock."""

    def _load(self) -> World:
        if self._file.exists():
            world: World = json.loads(self._file.read_text())
            return world
        return {
            "born": time.time_ns(),
            "settings": copy.deepcopy(SETTINGS),
            "faults": [],
            "clusters": {},
            "operations": {},
            "policies": {},  # of Compute Engine, "project/region/name"
            "project": copy.deepcopy(PARTS),  # what it has beside clusters
            "next": 1,
        }
