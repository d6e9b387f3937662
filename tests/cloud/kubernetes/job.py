"""The Job controller: makes pods, counts how they end, applies the pod failure policy, suspends, fails, completes."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tests.cloud.kubernetes import clock, job_pods, webhooks
from tests.cloud.kubernetes.conditions import find, holds, put
from tests.cloud.kubernetes.job_pods import Pods
from tests.cloud.kubernetes.refusals import Refused
from tests.cloud.kubernetes.runner import Runner
from tests.cloud.kubernetes.store import Change, Key, Obj, copied

if TYPE_CHECKING:
    from tests.cloud.kubernetes.world import World

KIND = "jobs.batch"
_BY = "job-controller"
# Between the decision that a Job fails and its failure everyone else has seen what it did to the pods.
_BETWEEN_S = 0.03
_AGAIN_S = 0.2


def runner(world: World) -> Runner:
    """Returns the controller."""
    return Runner(world, "job", _keys, Jobs(world).reconcile)


def _keys(change: Change) -> Iterable[Key]:
    meta = change.obj["metadata"]
    if change.key[0] == KIND:
        yield change.key
    elif change.key[0] == "pods":
        for owner in meta.get("ownerReferences") or []:
            if owner["kind"] == "Job":
                yield (KIND, meta["namespace"], owner["name"])


class Jobs:
    """Brings Jobs to where they should be."""

    def __init__(self, world: World) -> None:
        """Works in one cluster."""
        self._world = world
        self._decided: dict[str, float] = {}
        """When the failure of a Job was decided, by its UID."""

    def reconcile(self, key: Key) -> float | None:
        """Looks at one Job; returns when to look again."""
        job = self._world.store.at(key)
        held = webhooks.hold_pods(self._world, key[1])
        if job is None or job["metadata"].get("deletionTimestamp"):
            if held and self._orphans(key):
                return _AGAIN_S
            self._release(self._orphans(key))
            return None
        pods = job_pods.of(self._world, job)
        if held and pods.ended:  # none is counted of which its finalizer does not come off
            return _AGAIN_S
        if holds(job, "Complete") or holds(job, "Failed"):
            self._release(pods.tracked)
            return self._expire(key, job)
        new = copied(job)
        status = new.setdefault("status", {})
        failure = self._count(new, pods)
        runs = self._suspension(new, pods)
        if failure:
            self._stop(new, pods)
        self._fill(new, pods)
        again = self._conclude(new, pods, failure)
        if not status.get("conditions"):
            status.pop("conditions", None)
        written = self._world.set_status(key, lambda obj: obj.update(status=status)) or job
        self._release([*pods.counted, *pods.dropped])
        self._tell(job, written)
        if not runs or failure or find(written, "FailureTarget") or find(written, "SuccessCriteriaMet"):
            return again
        return self._make_pods(written, pods, again)

    def _suspension(self, job: Obj, pods: Pods) -> bool:
        """Follows spec.suspend; returns whether the Job runs."""
        status = job["status"]
        over = status.get("succeeded", 0) >= (job["spec"].get("completions") or 1)
        if job["spec"].get("suspend") and not over:
            self._stop(job, pods)
            put(job, "Suspended", "True", "JobSuspended", "Job suspended", probed=True)
            status.pop("startTime", None)
            return False
        if holds(job, "Suspended"):
            put(job, "Suspended", "False", "JobResumed", "Job resumed", probed=True)
            status["startTime"] = clock.seconds_text()
        status.setdefault("startTime", clock.seconds_text())
        return True

    def _stop(self, job: Obj, pods: Pods) -> None:
        """Deletes the pods that still run; they count as failed where the Job fails."""
        for pod in pods.active:
            meta = pod["metadata"]
            key = ("pods", meta["namespace"], meta["name"])
            self._world.delete(key)
            self._world.event(job, "SuccessfulDelete", f"Deleted pod: {meta['name']}", by=_BY)
            pods.dropped.append(pod)
        if not job["spec"].get("suspend") and pods.active:
            job["status"]["failed"] = job["status"].get("failed", 0) + len(pods.active)
        pods.terminating += pods.active
        pods.active = []

    def _count(self, job: Obj, pods: Pods) -> tuple[str, str] | None:
        """Counts pods that ended; returns (reason, message) of the Job's failure, if it fails by them."""
        status, spec = job["status"], job["spec"]
        done = job_pods.indexes(status.get("completedIndexes", ""))
        failure: tuple[str, str] | None = None
        for pod in pods.ended:
            pods.counted.append(pod)
            if pod["status"]["phase"] == "Succeeded":
                index = job_pods.index_of(pod)
                if spec["completionMode"] == "NonIndexed" or index not in done:
                    status["succeeded"] = status.get("succeeded", 0) + 1
                    done.add(index)
                continue
            verdict, told = job_pods.policy(spec.get("podFailurePolicy"), pod)
            if verdict != "Ignore":
                status["failed"] = status.get("failed", 0) + 1
            if verdict == "FailJob":
                failure = failure or ("PodFailurePolicy", told)
        if spec["completionMode"] == "Indexed" and done:
            status["completedIndexes"] = job_pods.ranges(done)
        if find(job, "FailureTarget") or find(job, "SuccessCriteriaMet"):
            return None
        if not failure and status.get("failed", 0) > spec["backoffLimit"]:
            failure = ("BackoffLimitExceeded", "Job has reached the specified backoff limit")
        limit = spec.get("activeDeadlineSeconds")
        timed = limit is not None and not spec.get("suspend") and "startTime" in status
        if not failure and timed and clock.since(status["startTime"]) >= limit:
            failure = ("DeadlineExceeded", "Job was active longer than specified deadline")
        return failure

    def _fill(self, job: Obj, pods: Pods) -> None:
        status = job["status"]
        status["terminating"] = len(pods.terminating)
        status["uncountedTerminatedPods"] = {}
        status["ready"] = sum(holds(one, "Ready") for one in pods.active)
        status["active"] = len(pods.active)
        if not status["active"]:
            del status["active"]

    def _conclude(self, job: Obj, pods: Pods, failure: tuple[str, str] | None) -> float | None:
        """Puts the conditions that end a Job: what decides it first, the end when no pod is left."""
        status, spec = job["status"], job["spec"]
        if failure:
            put(job, "FailureTarget", "True", *failure, probed=True)
            self._decided[job["metadata"]["uid"]] = time.monotonic()
            return _BETWEEN_S
        decided = find(job, "FailureTarget")
        if decided:
            left = _BETWEEN_S - (
                time.monotonic() - self._decided.setdefault(job["metadata"]["uid"], time.monotonic())
            )
            if left > 0:
                return left
            if not pods.terminating:
                put(job, "Failed", "True", decided["reason"], decided["message"], probed=True)
            return None
        wanted = spec.get("completions") or 1
        if status.get("succeeded", 0) >= wanted:
            message = "Reached expected number of succeeded pods"
            fresh = put(job, "SuccessCriteriaMet", "True", "CompletionsReached", message, probed=True)
            if not fresh and not pods.terminating:
                put(job, "Complete", "True", "CompletionsReached", message, probed=True)
                status["completionTime"] = clock.seconds_text()
            return 0.0 if fresh else None
        limit = spec.get("activeDeadlineSeconds")
        if limit is not None and "startTime" in status:
            return max(0.01, float(limit) - clock.since(status["startTime"]))
        return None

    def _tell(self, old: Obj, new: Obj) -> None:
        """Records the events of conditions that came."""
        told = {
            "Complete": ("Completed", "Job completed", False),
            "Failed": (find(new, "Failed").get("reason", ""), find(new, "Failed").get("message", ""), True),
        }
        for kind, (reason, message, warning) in told.items():
            if holds(new, kind) and not holds(old, kind):
                self._world.event(new, reason, message, warning=warning, by=_BY)
        was, now = find(old, "Suspended").get("status"), find(new, "Suspended").get("status")
        if was != now:
            reason, message = ("Suspended", "Job suspended") if now == "True" else ("Resumed", "Job resumed")
            self._world.event(new, reason, message, by=_BY)

    def _make_pods(self, job: Obj, pods: Pods, again: float | None) -> float | None:
        """Makes the pods that are missing; one that is refused is tried again when something changed."""
        wait = job_pods.backoff(self._world, job, pods)
        if wait > 0:
            return wait
        refused = False
        for index in job_pods.missing(job, pods):
            try:
                made = self._world.create("pods", job_pods.pod(job, index))
            except Refused as error:
                told = f"Error creating: {error.message}"
                self._world.event(job, "FailedCreate", told, warning=True, by=_BY)
                refused = True
                continue
            name = made["metadata"]["name"]
            self._world.event(job, "SuccessfulCreate", f"Created pod: {name}", by=_BY)
        return 0.5 if refused else again

    def _expire(self, key: Key, job: Obj) -> float | None:
        ttl = job["spec"].get("ttlSecondsAfterFinished")
        if ttl is None:
            return None
        ended = find(job, "Complete") or find(job, "Failed")
        left = float(ttl) - clock.since(ended["lastTransitionTime"])
        if left > 0:
            return left
        self._world.delete(key, {"propagationPolicy": "Foreground"})
        return None

    def _release(self, pods: list[Obj]) -> None:
        for pod in pods:
            meta = pod["metadata"]
            self._world.store.change(("pods", meta["namespace"], meta["name"]), job_pods.untrack)

    def _orphans(self, key: Key) -> list[Obj]:
        """Returns the pods of a Job that is gone or going that still have its finalizer."""
        found = []
        for pod in self._world.store.list("pods", key[1]):
            owners = pod["metadata"].get("ownerReferences") or []
            if any(one["kind"] == "Job" and one["name"] == key[2] for one in owners):
                owner = self._world.store.at(key)
                if (
                    owner is None
                    or owner["metadata"]["uid"] != owners[0]["uid"]
                    or (owner["metadata"].get("deletionTimestamp"))
                ):
                    found.append(pod)
        return [one for one in found if job_pods.TRACKED in (one["metadata"].get("finalizers") or [])]
