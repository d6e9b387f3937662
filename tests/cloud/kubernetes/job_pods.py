"""A Job's pods: which run, which ended and are not counted yet, which are missing; and the pod failure policy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.cloud.kubernetes import clock
from tests.cloud.kubernetes.jobset_jobs import owner
from tests.cloud.kubernetes.store import Obj, copied

if TYPE_CHECKING:
    from tests.cloud.kubernetes.world import World

TRACKED = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"


@dataclass
class Pods:
    """The pods of one Job, by what they mean to it."""

    active: list[Obj] = field(default_factory=list)
    terminating: list[Obj] = field(default_factory=list)
    ended: list[Obj] = field(default_factory=list)
    """Ended, not yet counted."""
    tracked: list[Obj] = field(default_factory=list)
    counted: list[Obj] = field(default_factory=list)
    dropped: list[Obj] = field(default_factory=list)
    all: list[Obj] = field(default_factory=list)


def of(world: World, job: Obj) -> Pods:
    """Returns a Job's pods."""
    pods = Pods()
    for key in world.store.owned_by(job["metadata"]["uid"]):
        pod = world.store.at(key)
        if pod is None or key[0] != "pods":
            continue
        pods.all.append(pod)
        meta, phase = pod["metadata"], pod["status"]["phase"]
        tracked = TRACKED in (meta.get("finalizers") or [])
        if tracked:
            pods.tracked.append(pod)
        # A pod that its kubelet has given up has a grace period of zero.
        gone = "deletionTimestamp" in meta and not meta.get("deletionGracePeriodSeconds")
        if phase in ("Succeeded", "Failed") or gone:
            if tracked:
                pods.ended.append(pod)
            elif "deletionTimestamp" in meta:
                pods.terminating.append(pod)
        elif "deletionTimestamp" in meta:
            pods.terminating.append(pod)
        else:
            pods.active.append(pod)
    return pods


def missing(job: Obj, pods: Pods) -> Iterable[int]:
    """Returns the indexes that need a pod; -1 for each of a Job without indexes."""
    spec, status = job["spec"], job["status"]
    blocking = [*pods.active, *(pods.terminating if spec.get("podReplacementPolicy") == "Failed" else [])]
    room = spec["parallelism"] - len(blocking)
    if spec["completionMode"] == "NonIndexed":
        left = (spec.get("completions") or 1) - status.get("succeeded", 0) - len(blocking)
        return [-1] * max(0, min(room, left))
    taken = indexes(status.get("completedIndexes", "")) | {index_of(one) for one in blocking}
    return [one for one in range(spec["completions"]) if one not in taken][: max(0, room)]


def backoff(world: World, job: Obj, pods: Pods) -> float:
    """Returns how long to wait before a failed pod is replaced."""
    failed = [one for one in pods.all if one["status"]["phase"] == "Failed"]
    count = job["status"].get("failed", 0)
    if not count or not failed:
        return 0.0
    ends = [
        clock.parsed(state["terminated"]["finishedAt"])
        for one in failed
        for status in one["status"].get("containerStatuses", [])
        if "terminated" in (state := status["state"])
    ]
    wait = world.settings.backoff_s * 2 ** (count - 1)
    return max(ends, default=0.0) + wait - clock.nanoseconds() / 1e9


def pod(job: Obj, index: int) -> Obj:
    """Returns a pod to create."""
    template = copied(job["spec"]["template"])
    meta, spec = template.get("metadata") or {}, template["spec"]
    name = job["metadata"]["name"]
    labels, notes = dict(meta.get("labels") or {}), dict(meta.get("annotations") or {})
    prefix = f"{name}-"
    if index >= 0:
        labels[INDEX] = notes[INDEX] = str(index)
        prefix = f"{name}-{index}-"
        spec.setdefault("hostname", f"{name}-{index}")
        source = {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX}']"}}
        for one in (*spec["containers"], *(spec.get("initContainers") or ())):
            one["env"] = [*(one.get("env") or []), {"name": "JOB_COMPLETION_INDEX", "valueFrom": source}]
    return {
        "metadata": {
            "generateName": prefix,
            "namespace": job["metadata"]["namespace"],
            "labels": labels,
            "annotations": notes,
            "ownerReferences": [owner(job)],
            "finalizers": [TRACKED],
        },
        "spec": spec,
    }


def policy(rules: dict[str, Any] | None, pod: Obj) -> tuple[str, str]:
    """Returns what the pod failure policy does with a failed pod (FailJob, Ignore, Count), and its words."""
    meta = pod["metadata"]
    for number, rule in enumerate((rules or {}).get("rules") or []):
        if wanted := rule.get("onExitCodes"):
            for status in pod["status"].get("containerStatuses") or []:
                code = status["state"].get("terminated", {}).get("exitCode", 0)
                named = wanted.get("containerName") in (None, status["name"])
                if named and code and (code in wanted["values"]) is (wanted["operator"] == "In"):
                    told = f"Container {status['name']} for pod {meta['namespace']}/{meta['name']} failed with exit "
                    told += f"code {code} matching {rule['action']} rule at index {number}"
                    return str(rule["action"]), told
        for wanted in rule.get("onPodConditions") or []:
            for one in pod["status"].get("conditions") or []:
                if (one["type"], one["status"]) == (wanted["type"], wanted.get("status", "True")):
                    told = f"Pod {meta['namespace']}/{meta['name']} has condition {one['type']} matching "
                    told += f"{rule['action']} rule at index {number}"
                    return str(rule["action"]), told
    return "Count", ""


def index_of(pod: Obj) -> int:
    """Returns a pod's completion index, -1 without one."""
    return int(pod["metadata"].get("labels", {}).get(INDEX, -1))


def untrack(pod: Obj) -> None:
    """Takes the Job controller's finalizer off a pod, in place."""
    left = [one for one in pod["metadata"].get("finalizers") or [] if one != TRACKED]
    if left:
        pod["metadata"]["finalizers"] = left
    else:
        pod["metadata"].pop("finalizers", None)


def indexes(text: str) -> set[int]:
    """Returns the indexes that `0,2-4` names."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        low, _, high = part.partition("-")
        found |= set(range(int(low), int(high or low) + 1))
    return found


def ranges(found: set[int]) -> str:
    """Returns indexes as `0,2-4`."""
    parts: list[list[int]] = []
    for one in sorted(found):
        if parts and parts[-1][1] == one - 1:
            parts[-1][1] = one
        else:
            parts.append([one, one])
    return ",".join(f"{low}" if low == high else f"{low}-{high}" for low, high in parts)
