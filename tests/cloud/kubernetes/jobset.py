"""The JobSet controller: makes Jobs, suspends and resumes them, restarts all of them, ends, and is deleted in time."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tests.cloud.kubernetes import clock, jobset_jobs, jobset_status
from tests.cloud.kubernetes.conditions import find, holds, put
from tests.cloud.kubernetes.jobset_jobs import ATTEMPT, RJOB
from tests.cloud.kubernetes.refusals import Refused
from tests.cloud.kubernetes.runner import Runner
from tests.cloud.kubernetes.store import Change, Key, Obj

if TYPE_CHECKING:
    from tests.cloud.kubernetes.world import World

KIND = "jobsets.jobset.x-k8s.io"
_BY = "jobset"


def runner(world: World) -> Runner:
    """Returns the controller."""
    return Runner(world, "jobset", _keys, JobSets(world).reconcile)


def _keys(change: Change) -> Iterable[Key]:
    if change.key[0] == KIND:
        yield change.key
    elif change.key[0] in ("jobs.batch", "services"):
        meta = change.obj["metadata"]
        for owner in meta.get("ownerReferences") or []:
            if owner["kind"] == "JobSet":
                yield (KIND, meta["namespace"], owner["name"])


class JobSets:
    """Brings JobSets to where they should be."""

    def __init__(self, world: World) -> None:
        """Works in one cluster."""
        self._world = world

    def reconcile(self, key: Key) -> float | None:
        """Looks at one JobSet; returns when to look again."""
        js = self._world.store.at(key)
        if js is None or js["metadata"].get("deletionTimestamp"):
            return None
        if (js["spec"].get("managedBy") or "jobset.sigs.k8s.io/jobset-controller") != (
            "jobset.sigs.k8s.io/jobset-controller"
        ):
            return None
        jobs = self._jobs(js)
        attempt = str(js.get("status", {}).get("restarts", 0))
        current = [one for one in jobs if one["metadata"]["labels"].get(ATTEMPT) == attempt]
        previous = [one for one in jobs if one not in current]
        with_status = jobset_status.counted(js, current)
        if with_status.get("status", {}).get("terminalState"):
            js = self._write(key, with_status) or js
            return self._finished(key, js, current)
        for one in previous:
            self._delete_job(one)
        if js.get("status") and (first := jobset_status.first_failed(current)):
            return self._failed(key, with_status, first)
        if jobset_status.succeeded(with_status, current):
            return self._end(
                key, with_status, "Completed", "AllJobsCompleted", "jobset completed successfully"
            )
        self._service(js)
        self._create_jobs(js, jobs)
        self._switch(key, with_status, current)
        return None

    def _jobs(self, js: Obj) -> list[Obj]:
        store = self._world.store
        owned = [store.at(key) for key in store.owned_by(js["metadata"]["uid"]) if key[0] == "jobs.batch"]
        return [one for one in owned if one is not None]

    def _write(self, key: Key, js: Obj) -> Obj | None:
        return self._world.set_status(
            key, lambda obj: obj.update(status=js["status"]) if "status" in js else None
        )

    def _delete_job(self, job: Obj) -> None:
        meta = job["metadata"]
        if not meta.get("deletionTimestamp"):
            self._world.delete(
                ("jobs.batch", meta["namespace"], meta["name"]), {"propagationPolicy": "Foreground"}
            )

    def _finished(self, key: Key, js: Obj, jobs: list[Obj]) -> float | None:
        """Deletes Jobs that still run, and the JobSet itself when its time is over."""
        for one in jobs:
            if not holds(one, "Complete") and not holds(one, "Failed"):
                self._delete_job(one)
        ttl = js["spec"].get("ttlSecondsAfterFinished")
        if ttl is None:
            return None
        ended = find(js, "Completed") or find(js, "Failed")
        left = ttl - clock.since(ended["lastTransitionTime"])
        if left > 0:
            return float(left)
        self._world.delete(key, {"propagationPolicy": "Foreground"})
        return None

    def _end(self, key: Key, js: Obj, state: str, reason: str, message: str) -> None:
        put(js, state, "True", reason, message)
        js["status"]["terminalState"] = state
        written = self._write(key, js)
        if written:
            self._world.event(written, reason, message, warning=state == "Failed", by=_BY)

    def _failed(self, key: Key, js: Obj, first: Obj) -> None:
        """Does what the failure policy says of the first Job that failed."""
        action, reason, message = jobset_status.verdict(js, first)
        if action.startswith("Fail"):
            self._end(key, js, "Failed", reason, message)
            return
        status = js["status"]
        status["restarts"] = status.get("restarts", 0) + 1
        if action == "RestartJobSet":
            status["restartsCountTowardsMax"] = status.get("restartsCountTowardsMax", 0) + 1
        words = [reason]
        if self._world.settings.tells_restarts:
            words.insert(0, jobset_status.restart_reason(js, first))
            put(js, "RestartingJobSet", "True", words[0], message)
        written = self._write(key, js)
        if written:
            for word in words:
                self._world.event(written, word, message, warning=True, by=_BY)
            # The controller's view of what exists is a little old, so it tries to make Jobs that still go.
            taken = first["metadata"]["name"]
            told = f'job "{taken}" creation failed with error: jobs.batch "{taken}" already exists'
            self._world.event(written, "JobCreationFailed", told, warning=True, by=_BY)

    def _service(self, js: Obj) -> None:
        if not js["spec"]["network"]["enableDNSHostnames"]:
            return
        wanted = jobset_jobs.service(js)
        meta = wanted["metadata"]
        if self._world.store.get("services", meta["namespace"], meta["name"]) is None:
            self._world.create("services", wanted)

    def _create_jobs(self, js: Obj, jobs: list[Obj]) -> None:
        there = {one["metadata"]["name"] for one in jobs}
        if jobset_status.strategy(js) == "BlockingRecreate" and any(
            one["metadata"].get("deletionTimestamp") for one in jobs
        ):
            return
        for rjob in js["spec"]["replicatedJobs"]:
            if not jobset_status.may_start(js, rjob, jobs):
                return
            for index in range(rjob["replicas"]):
                name = jobset_jobs.job_name(js, rjob, index)
                if name not in there:
                    try:
                        self._world.create("jobs.batch", jobset_jobs.job(js, rjob, index))
                    except Refused as refused:
                        told = f'job "{name}" creation failed with error: {refused.message}'
                        self._world.event(js, "JobCreationFailed", told, warning=True, by=_BY)
                        raise

    def _switch(self, key: Key, js: Obj, jobs: list[Obj]) -> None:
        """Suspends or resumes the Jobs, in order where that is asked for."""
        if js["spec"].get("suspend"):
            for one in jobs:
                self._suspend(one, True)
            if put(js, "Suspended", "True", "SuspendedJobs", "jobset is suspended"):
                self._tell(key, js, "SuspendedJobs", "jobset is suspended")
                return
            self._write(key, js)
            return
        for rjob in js["spec"]["replicatedJobs"]:
            if not jobset_status.may_start(js, rjob, jobs):
                message = "jobset starting in order"
                put(js, "StartupPolicyInProgress", "True", "StartupPolicyInProgress", message)
                self._write(key, js)
                return
            for one in jobs:
                if one["metadata"]["labels"][RJOB] == rjob["name"]:
                    self._suspend(one, False, js=js, rjob=rjob)
        if jobset_status.in_order(js) and jobset_status.all_started(js, jobs):
            put(js, "StartupPolicyInProgress", "False", "StartupPolicyInProgress", "jobset starting in order")
            put(
                js,
                "StartupPolicyCompleted",
                "True",
                "StartupPolicyCompleted",
                "all replicated jobs have started",
            )
        if find(js, "Suspended") and put(js, "Suspended", "False", "ResumeJobs", "jobset is resumed"):
            self._tell(key, js, "ResumeJobs", "jobset is resumed")
            return
        if holds(js, "RestartingJobSet") and jobset_status.all_started(js, jobs):
            put(js, "RestartingJobSet", "False", "JobsReady", "all jobs are ready")
            self._tell(key, js, "JobsReady", "all jobs are ready")
            return
        self._write(key, js)

    def _tell(self, key: Key, js: Obj, reason: str, message: str) -> None:
        written = self._write(key, js)
        if written:
            self._world.event(written, reason, message, by=_BY)

    def _suspend(self, job: Obj, wanted: bool, *, js: Obj | None = None, rjob: Obj | None = None) -> None:
        if job["spec"].get("suspend") == wanted or job["metadata"].get("deletionTimestamp"):
            return

        def edit(obj: Obj) -> None:
            obj["spec"]["suspend"] = wanted
            if js is None or rjob is None:
                return
            # What Kueue put into the JobSet's template while it was suspended goes on to the pods.
            pods, source = obj["spec"]["template"], rjob["template"]["spec"]["template"]
            for part in ("labels", "annotations"):
                added = (source.get("metadata") or {}).get(part) or {}
                pods["metadata"][part] = {**(pods["metadata"].get(part) or {}), **added}
            for part in ("nodeSelector", "tolerations"):
                if part in source["spec"]:
                    pods["spec"][part] = source["spec"][part]

        meta = job["metadata"]
        with contextlib.suppress(Refused):
            self._world.store.change(("jobs.batch", meta["namespace"], meta["name"]), edit)
