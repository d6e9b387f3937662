"""What a JobSet's Jobs say about it: counts, the first failure and what to do about it, success, order of start."""

from __future__ import annotations

import re
from typing import Any

from tests.cloud.kubernetes.conditions import find, holds
from tests.cloud.kubernetes.jobset_jobs import RJOB
from tests.cloud.kubernetes.store import Obj, copied


def counted(js: Obj, jobs: list[Obj]) -> Obj:
    """Returns a copy whose status counts the Jobs of the current attempt."""
    js = copied(js)
    status = js.setdefault("status", {})
    status.setdefault("restarts", 0)
    listed = []
    for rjob in js["spec"]["replicatedJobs"]:
        own = [one for one in jobs if one["metadata"]["labels"].get(RJOB) == rjob["name"]]
        entry = {"active": 0, "failed": 0, "name": rjob["name"], "ready": 0, "succeeded": 0, "suspended": 0}
        for one in own:
            if holds(one, "Complete"):
                entry["succeeded"] += 1
            elif holds(one, "Failed"):
                entry["failed"] += 1
            else:
                entry["ready"] += is_ready(one)
                entry["active"] += one["status"].get("active", 0) > 0
                entry["suspended"] += bool(one["spec"].get("suspend"))
        listed.append(entry)
    status["replicatedJobsStatus"] = listed
    return js


def is_ready(job: Obj) -> bool:
    """Says whether all pods of a Job are ready or have succeeded."""
    spec, status = job["spec"], job["status"]
    wanted = min(spec["parallelism"], spec.get("completions") or spec["parallelism"])
    return int(status.get("ready", 0)) + int(status.get("succeeded", 0)) >= int(wanted)


def first_failed(jobs: list[Obj]) -> Obj | None:
    """Returns the Job that failed first."""
    failed = [one for one in jobs if holds(one, "Failed")]
    return min(failed, key=lambda one: find(one, "Failed")["lastTransitionTime"], default=None)


def verdict(js: Obj, first: Obj) -> tuple[str, str, str]:
    """Returns (action, reason, message) for a failure."""
    policy = js["spec"].get("failurePolicy")
    told = f"(first failed job: {first['metadata']['name']})"
    if policy is None:
        return "Fail", "FailedJobs", f"jobset failed due to one or more job failures {told}"
    action = _action(policy, first)
    if action == "FailJobSet":
        return action, "FailJobSetFailurePolicyAction", f"applying FailJobSet failure policy action {told}"
    counted = js["status"].get("restartsCountTowardsMax", 0)
    if action == "RestartJobSet" and counted >= policy["maxRestarts"]:
        message = f"jobset failed due to reaching max number of restarts {told}"
        return "Fail", "ReachedMaxRestarts", message
    return action, f"{action}FailurePolicyAction", f"applying {action} failure policy action {told}"


def restart_reason(js: Obj, first: Obj) -> str:
    """Returns by which rule of the failure policy it starts again, as its condition RestartingJobSet names it."""
    rule = _rule(js["spec"].get("failurePolicy") or {}, first)
    return f"FailurePolicy_{rule['name']}" if rule else "DefaultFailurePolicy"


def _action(policy: dict[str, Any], first: Obj) -> str:
    rule = _rule(policy, first)
    return str(rule["action"]) if rule else "RestartJobSet"


def _rule(policy: dict[str, Any], first: Obj) -> dict[str, Any] | None:
    failed = find(first, "Failed")
    for rule in policy.get("rules") or []:
        reasons = rule.get("onJobFailureReasons") or []
        patterns = rule.get("onJobFailureMessagePatterns") or []
        targets = rule.get("targetReplicatedJobs") or []
        if (
            (not reasons or failed["reason"] in reasons)
            and (not patterns or any(re.search(one, failed["message"]) for one in patterns))
            and (not targets or first["metadata"]["labels"][RJOB] in targets)
        ):
            return dict(rule)
    return None


def strategy(js: Obj) -> str:
    """Returns how Jobs are made anew at a restart."""
    return str((js["spec"].get("failurePolicy") or {}).get("restartStrategy", "Recreate"))


def succeeded(js: Obj, jobs: list[Obj]) -> bool:
    """Says whether the success policy is met."""
    policy = js["spec"]["successPolicy"]
    targets = policy.get("targetReplicatedJobs") or [one["name"] for one in js["spec"]["replicatedJobs"]]
    done = [one for one in jobs if one["metadata"]["labels"].get(RJOB) in targets and holds(one, "Complete")]
    if policy["operator"] == "Any":
        return bool(done)
    wanted = sum(one["replicas"] for one in js["spec"]["replicatedJobs"] if one["name"] in targets)
    return wanted > 0 and len(done) == wanted


def in_order(js: Obj) -> bool:
    """Says whether replicated jobs start one after the other."""
    return bool(js["spec"]["startupPolicy"]["startupPolicyOrder"] == "InOrder")


def may_start(js: Obj, rjob: dict[str, Any], jobs: list[Obj]) -> bool:
    """Says whether a replicated job's Jobs may run: those before it have started, or what it depends on has."""
    if js["spec"].get("suspend"):
        return True
    listed = js["spec"]["replicatedJobs"]
    if in_order(js):
        before = listed[: listed.index(rjob)]
        return all(_started(one, jobs) for one in before)
    for need in rjob.get("dependsOn") or []:
        other = next(one for one in listed if one["name"] == need["name"])
        own = [one for one in jobs if one["metadata"]["labels"].get(RJOB) == other["name"]]
        complete = len(own) == other["replicas"] and all(holds(one, "Complete") for one in own)
        if not (complete or (need["status"] == "Ready" and _started(other, jobs))):
            return False
    return True


def all_started(js: Obj, jobs: list[Obj]) -> bool:
    """Says whether every Job has started."""
    return all(_started(one, jobs) for one in js["spec"]["replicatedJobs"])


def _started(rjob: dict[str, Any], jobs: list[Obj]) -> bool:
    own = [one for one in jobs if one["metadata"]["labels"].get(RJOB) == rjob["name"]]
    return len(own) == rjob["replicas"] and all(is_ready(one) or holds(one, "Complete") for one in own)
