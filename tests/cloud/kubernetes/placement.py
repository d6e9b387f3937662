"""Exclusive placement, JobSet's pod webhook: the first pod of a Job picks a node pool, the others must follow it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.cloud.kubernetes import refusals
from tests.cloud.kubernetes.store import Obj

if TYPE_CHECKING:
    from tests.cloud.kubernetes.world import World

TOPOLOGY = "alpha.jobset.sigs.k8s.io/exclusive-topology"
JOB_KEY = "jobset.sigs.k8s.io/job-key"
_PRIORITY = "jobset.sigs.k8s.io/priority"
_INDEX = "batch.kubernetes.io/job-completion-index"


def admit(world: World, pod: Obj) -> None:
    """Places a pod, or refuses one whose leader is nowhere yet."""
    meta = pod["metadata"]
    topology = (meta.get("annotations") or {}).get(TOPOLOGY)
    if not topology or JOB_KEY not in (meta.get("labels") or {}):
        return
    meta["labels"][_PRIORITY] = str(pod["spec"].get("priority", 0))
    if meta["labels"].get(_INDEX) == "0":
        affinity = pod["spec"].setdefault("affinity", {})
        for side, required in _affinity(meta["labels"], topology).items():
            for when, terms in required.items():  # it has its own wishes, too
                known = affinity.setdefault(side, {})
                known[when] = [*known.get(when, []), *terms]
        return
    value = _leader_domain(world, meta, topology)
    if value is None:
        why = f"follower pod node selector for topology domain not found. missing selector: {topology}"
        raise refusals.denied("vpod.kb.io", why)
    pod["spec"]["nodeSelector"] = {**(pod["spec"].get("nodeSelector") or {}), topology: value}


def _leader_domain(world: World, meta: dict[str, Any], topology: str) -> str | None:
    for owner in meta.get("ownerReferences") or []:
        for key in world.store.owned_by(owner["uid"]):
            leader = world.store.at(key) or {}
            if leader["metadata"].get("labels", {}).get(_INDEX) != "0" or not leader["spec"].get("nodeName"):
                continue
            if leader["metadata"].get("deletionTimestamp") or leader["status"].get("phase") == "Failed":
                continue
            node = world.store.get("nodes", "", leader["spec"]["nodeName"])
            if node is not None:
                return str(node["metadata"]["labels"].get(topology, "")) or None
    return None


def _affinity(labels: dict[str, str], topology: str) -> dict[str, Any]:
    key = labels[JOB_KEY]
    with_own = [{"key": JOB_KEY, "operator": "In", "values": [key]}]
    from_others = [
        {"key": JOB_KEY, "operator": "Exists"},
        {"key": JOB_KEY, "operator": "NotIn", "values": [key]},
        {"key": _PRIORITY, "operator": "In", "values": [labels[_PRIORITY]]},
    ]
    return {"podAffinity": _required(with_own, topology), "podAntiAffinity": _required(from_others, topology)}


def _required(expressions: list[dict[str, Any]], topology: str) -> dict[str, Any]:
    term = {
        "labelSelector": {"matchExpressions": expressions},
        "topologyKey": topology,
        "namespaceSelector": {},
    }
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
