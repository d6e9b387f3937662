"""Kueue's arithmetic: does a Workload fit into a ClusterQueue now, ever, or after others are preempted."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.cloud.kubernetes import quantities
from tests.cloud.kubernetes.conditions import holds
from tests.cloud.kubernetes.kueue_cohort import Room, Usage
from tests.cloud.kubernetes.store import Obj

FITS, WAITS, NEVER, NO_FLAVOR = "", "WaitingForQuota", "ExceedsMaxQuota", "NoMatchingFlavor"
_RANK = {FITS: 0, WAITS: 1, NEVER: 2, NO_FLAVOR: 3}


@dataclass
class Assignment:
    """What a Workload would get."""

    verdict: str = FITS
    """Empty where it fits, else the reason of its QuotaReserved condition."""
    message: str = ""
    pod_sets: list[dict[str, Any]] = field(default_factory=list)
    usage: Usage = field(default_factory=Counter)


def used_by(wl: Obj) -> Usage:
    """Returns what a Workload holds: nothing once it finished, less what it gave back."""
    usage: Usage = Counter()
    if not holds(wl, "QuotaReserved") or holds(wl, "Finished"):
        return usage
    given = {one["name"]: one["count"] for one in wl["status"].get("reclaimablePods") or []}
    for one in wl["status"]["admission"]["podSetAssignments"]:
        share = max(0, one["count"] - given.get(one["name"], 0)) / one["count"] if one["count"] else 0
        for resource, amount in one["resourceUsage"].items():
            usage[one["flavors"][resource], resource] += quantities.number(amount) * share
    return usage


def assign(wl: Obj, queue: Obj, flavors: dict[str, Obj], room: Room) -> Assignment:
    """Tries to fit a Workload beside what is used."""
    result = Assignment()
    for pod_set in wl["spec"]["podSets"]:
        one, reasons, verdict = _pod_set(pod_set, queue, flavors, room, result.usage)
        result.pod_sets.append(one)
        if verdict:
            result.verdict = verdict
            told = ", ".join(dict.fromkeys(reasons))
            result.message = f"couldn't assign flavors to pod set {pod_set['name']}: {told}"
            return result
    return result


def _pod_set(
    pod_set: dict[str, Any], queue: Obj, flavors: dict[str, Obj], room: Room, own: Usage
) -> tuple[dict[str, Any], list[str], str]:
    count = pod_set["count"]
    wanted = {name: amount * count for name, amount in quantities.requests(pod_set["template"]).items()}
    one: dict[str, Any] = {"count": count, "flavors": {}, "name": pod_set["name"], "resourceUsage": {}}
    groups = queue["spec"].get("resourceGroups") or []
    for resource in wanted:
        if not any(resource in group["coveredResources"] for group in groups):
            return one, [f"resource {resource} unavailable in ClusterQueue"], NO_FLAVOR
    for group in groups:
        asked = {name: amount for name, amount in wanted.items() if name in group["coveredResources"]}
        if not asked:
            continue
        best, reasons = NO_FLAVOR, []
        for flavor in group["flavors"]:
            verdict, told = _flavor(flavor, group, asked, pod_set, flavors, room, own)
            if verdict == FITS:
                for resource, amount in asked.items():
                    one["flavors"][resource] = flavor["name"]
                    one["resourceUsage"][resource] = quantities.text(amount)
                    own[flavor["name"], resource] += amount
                best = FITS
                break
            reasons += told
            best = min(best, verdict, key=lambda name: _RANK[name])
        if best != FITS:
            return one, reasons, best
    return one, [], FITS


def _flavor(
    flavor: dict[str, Any],
    group: dict[str, Any],
    asked: dict[str, float],
    pod_set: dict[str, Any],
    flavors: dict[str, Obj],
    room: Room,
    own: Usage,
) -> tuple[str, list[str]]:
    name = flavor["name"]
    defined = flavors.get(name)
    if defined is None:
        return NO_FLAVOR, [f"flavor {name} not found"]
    pod, spec = pod_set["template"]["spec"], defined.get("spec") or {}
    for taint in spec.get("nodeTaints") or []:
        if not any(one.get("key") in (None, taint["key"]) for one in pod.get("tolerations") or []):
            told = f"{{{taint['key']} {taint.get('value', '')} {taint['effect']} <nil>}}"
            return NO_FLAVOR, [f"untolerated taint {told} in flavor {name}"]
    labels = spec.get("nodeLabels") or {}
    # Only labels that flavors of the group have are compared; others are the scheduler's business.
    known = {
        key
        for one in group["flavors"]
        for key in flavors.get(one["name"], {}).get("spec", {}).get("nodeLabels", {})
    }
    selector = {key: value for key, value in (pod.get("nodeSelector") or {}).items() if key in known}
    if any(labels.get(key) != value for key, value in selector.items()):
        return NO_FLAVOR, [f"flavor {name} doesn't match node affinity"]
    annotations = (pod_set["template"].get("metadata") or {}).get("annotations") or {}
    by_topology = any(
        key.endswith("-topology") and key.startswith("kueue.x-k8s.io/podset") for key in annotations
    )
    if by_topology and not spec.get("topologyName"):
        return NO_FLAVOR, [f"Flavor {name} does not support TopologyAwareScheduling"]
    return _quota(flavor, asked, room, own)


def _quota(flavor: dict[str, Any], asked: dict[str, float], room: Room, own: Usage) -> tuple[str, list[str]]:
    name, verdict, told = flavor["name"], FITS, []
    for resource, amount in asked.items():
        most, before = room.most((name, resource)), own[name, resource]
        if before + amount > most:
            numbers = f"({quantities.text(before)}) + current podset request ({quantities.text(amount)})"
            told.append(
                f"insufficient quota for {resource} in flavor {name}, previously considered podsets requests "
                f"{numbers} > maximum capacity ({quantities.text(most)})"
            )
            verdict = NEVER
        elif (more := before + amount - room.now((name, resource))) > 0:
            more_text = quantities.text(more)
            told.append(f"insufficient unused quota for {resource} in flavor {name}, {more_text} more needed")
            verdict = max(verdict, WAITS, key=lambda one: _RANK[one])
    return verdict, told
