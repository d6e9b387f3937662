"""What a Workload says of its JobSet: its name, its pod sets, what it gave back, whether its pods are ready."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from tests.cloud.kubernetes.conditions import find, holds, put
from tests.cloud.kubernetes.store import Obj, copied

if TYPE_CHECKING:
    from tests.cloud.kubernetes.world import World

_PLAIN = {"Misconfigured": "Inadmissible", "Suspended": "Inadmissible", "Deactivated": "Deactivated"}


def reason_told(world: World, reason: str) -> str:
    """Returns the reason that Kueue gives why a Workload has no quota, as it is set up."""
    return reason if world.settings.kueue_reasons else _PLAIN.get(reason, "Pending")


def workload_name(js: Obj) -> str:
    """Returns the name of a JobSet's Workload."""
    meta = js["metadata"]
    text = f"JobSet\njobset.x-k8s.io\n{meta['name']}\n{meta['uid']}"
    return f"jobset-{meta['name']}-{hashlib.sha1(text.encode()).hexdigest()[:5]}"


def pod_sets(js: Obj) -> list[dict[str, Any]]:
    """Returns a Workload's pod sets."""
    made = []
    for rjob in js["spec"]["replicatedJobs"]:
        spec = rjob["template"]["spec"]
        request = {"podIndexLabel": "batch.kubernetes.io/job-completion-index"}
        request |= {"subGroupCount": rjob["replicas"], "subGroupIndexLabel": "jobset.sigs.k8s.io/job-index"}
        made.append(
            {
                "count": rjob["replicas"] * pods_of(spec),
                "name": rjob["name"],
                "template": copied(spec["template"]),
                "topologyRequest": request,
            }
        )
    return made


def pods_of(spec: dict[str, Any]) -> int:
    """Returns how many pods of a Job run at once."""
    parallelism = int(spec.get("parallelism", 1))
    return min(parallelism, int(spec.get("completions") or parallelism))


def reference(group: str, kind: str, name: str) -> dict[str, str]:
    """Returns a reference to a priority class."""
    return {"group": group, "kind": kind, "name": name}


def active(js: Obj) -> bool:
    """Says whether a JobSet counts pods that run."""
    return any(one["active"] for one in js.get("status", {}).get("replicatedJobsStatus") or [])


def reclaimable(js: Obj) -> list[dict[str, Any]]:
    """Returns how many pods of each pod set will not be needed any more."""
    counts = {one["name"]: one for one in js.get("status", {}).get("replicatedJobsStatus") or []}
    found = []
    for rjob in js["spec"]["replicatedJobs"]:
        done = counts.get(rjob["name"], {}).get("succeeded", 0)
        if 0 < done < rjob["replicas"]:
            found.append({"count": done * pods_of(rjob["template"]["spec"]), "name": rjob["name"]})
    return found


def readiness(js: Obj, wl: Obj) -> tuple[str, str, str] | None:
    """Returns the PodsReady condition to set, None for no change."""
    now = find(wl, "PodsReady")
    if not holds(wl, "Admitted"):
        return None if now else ("False", "WaitForStart", "Not all pods are ready or succeeded")
    counts = {one["name"]: one for one in js.get("status", {}).get("replicatedJobsStatus") or []}
    ready = bool(counts) and all(
        counts.get(one["name"], {}).get("ready", 0) + counts.get(one["name"], {}).get("succeeded", 0)
        >= one["replicas"]
        for one in js["spec"]["replicatedJobs"]
    )
    if ready and now.get("status") != "True":
        reason = "Recovered" if now.get("reason") == "WaitForRecovery" else "Started"
        return "True", reason, "All pods reached readiness and the workload is running"
    if not ready and now.get("status") == "True":
        return "False", "WaitForRecovery", "At least one pod has failed, waiting for recovery"
    return None if now else ("False", "WaitForStart", "Not all pods are ready or succeeded")


def put_seen(wl: Obj, kind: str, status: str, reason: str, message: str, *, before: str = "") -> None:
    """Sets a condition with the generation it was seen at; a new one may go before another."""
    fresh = not find(wl, kind)
    put(wl, kind, status, reason, message, observedGeneration=wl["metadata"].get("generation", 1))
    listed = wl["status"]["conditions"]
    at = next((i for i, one in enumerate(listed) if one["type"] == before), -1)
    if fresh and at >= 0:
        listed.insert(at, listed.pop())
