"""The CronJob controller: starts a Job at each time of a schedule, as its policy allows, and forgets old ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tests.cloud.kubernetes import clock
from tests.cloud.kubernetes.conditions import find, holds
from tests.cloud.kubernetes.jobset_jobs import owner
from tests.cloud.kubernetes.refusals import Refused
from tests.cloud.kubernetes.runner import Runner
from tests.cloud.kubernetes.schedule import Schedule
from tests.cloud.kubernetes.store import Change, Key, Obj, copied

if TYPE_CHECKING:
    from tests.cloud.kubernetes.world import World

KIND, _JOBS = "cronjobs.batch", "jobs.batch"
_BY = "cronjob-controller"
_MANY = 100
"""Times missed at once from which on the real one says so."""
_LOOK_S = 0.1
"""How often the time is looked at: tests set the cluster's clock."""


def runner(world: World) -> Runner:
    """Returns the controller."""
    return Runner(world, "cronjob", _keys, CronJobs(world).reconcile)


def _keys(change: Change) -> Iterable[Key]:
    meta = change.obj["metadata"]
    if change.key[0] == KIND:
        yield change.key
    elif change.key[0] == _JOBS:
        for one in meta.get("ownerReferences") or []:
            if one["kind"] == "CronJob":
                yield (KIND, meta["namespace"], one["name"])


class CronJobs:
    """Brings CronJobs to where they should be."""

    def __init__(self, world: World) -> None:
        """Works in one cluster."""
        self._world = world
        self._said: set[tuple[str, str, float]] = set()
        """What was told of which time of which CronJob: by its UID, once."""

    def reconcile(self, key: Key) -> float | None:
        """Looks at one CronJob; returns when to look again."""
        cron = self._world.store.at(key)
        if cron is None or cron["metadata"].get("deletionTimestamp"):
            return None
        jobs = self._jobs(cron)
        cron = self._settle(key, cron, jobs)
        self._forget(cron, jobs)
        if cron["spec"]["suspend"]:
            return None
        due = self._due(cron)
        if due is not None:
            self._start(key, cron, due)
        return _LOOK_S

    def _jobs(self, cron: Obj) -> list[Obj]:
        owned = self._world.store.list(_JOBS, cron["metadata"]["namespace"])
        uid = cron["metadata"]["uid"]
        return [
            one
            for one in owned
            if any(ref["uid"] == uid for ref in one["metadata"].get("ownerReferences") or [])
        ]

    def _settle(self, key: Key, cron: Obj, jobs: Sequence[Obj]) -> Obj:
        """Takes Jobs that have ended, or are gone, off the active ones."""
        status = copied(cron.get("status") or {})
        there = {one["metadata"]["uid"]: one for one in jobs}
        active: list[dict[str, Any]] = []
        for ref in status.get("active") or []:
            job = there.get(ref["uid"])
            ended = _end_of(job) if job else ""
            if job is None:
                told = f"Active job went missing: {ref['name']}"
                self._world.event(cron, "MissingJob", told, by=_BY)
            elif ended:
                told = f"Saw completed job: {ref['name']}, condition: {ended}"
                self._world.event(cron, "SawCompletedJob", told, by=_BY)
            else:
                active.append(ref)
        done = [one["status"]["completionTime"] for one in jobs if _end_of(one) == "Complete"]
        if done:
            status["lastSuccessfulTime"] = max(done)
        status["active"] = active
        if not active:
            del status["active"]
        if status == (cron.get("status") or {}):
            return cron
        return self._world.set_status(key, lambda obj: obj.update(status=status)) or cron

    def _forget(self, cron: Obj, jobs: Sequence[Obj]) -> None:
        """Deletes the oldest of the Jobs that have ended, beyond what is to be kept."""
        for ended, field in (
            ("Complete", "successfulJobsHistoryLimit"),
            ("Failed", "failedJobsHistoryLimit"),
        ):
            over = sorted(
                (one for one in jobs if _end_of(one) == ended),
                key=lambda one: (one["status"].get("startTime", ""), one["metadata"]["name"]),
            )
            for job in over[: max(0, len(over) - cron["spec"][field])]:
                self._delete(cron, job)

    def _delete(self, cron: Obj, job: Obj) -> None:
        meta = job["metadata"]
        if not meta.get("deletionTimestamp"):
            self._world.delete((_JOBS, meta["namespace"], meta["name"]), {"propagationPolicy": "Background"})
            self._world.event(cron, "SuccessfulDelete", f"Deleted job {meta['name']}", by=_BY)

    def _due(self, cron: Obj) -> float | None:
        """Returns the newest time that has come and was not started, None where there is none any more."""
        spec, meta = cron["spec"], cron["metadata"]
        now = clock.nanoseconds() / 1e9
        last = (cron.get("status") or {}).get("lastScheduleTime")
        since = clock.parsed(last or meta["creationTimestamp"])
        limit = spec.get("startingDeadlineSeconds")
        if limit is not None:
            since = max(since, now - limit)
        missed = Schedule(spec["schedule"], spec.get("timeZone")).between(since, now)
        if not missed:
            return None
        if len(missed) > _MANY and limit is None:
            told = (
                f"too many missed start times: {len(missed)}. Set or decrease .spec.startingDeadlineSeconds"
            )
            told += " or check clock skew"
            self._once(cron, "TooManyMissedTimes", told, missed[-1])
        return missed[-1]

    def _start(self, key: Key, cron: Obj, due: float) -> None:
        """Makes the Job of a time, unless the policy forbids it now; then it is tried again until it is too late."""
        spec, active = cron["spec"], (cron.get("status") or {}).get("active") or []
        if active and spec["concurrencyPolicy"] == "Forbid":
            told = "Not starting job because prior execution is running and concurrency policy is Forbid"
            self._once(cron, "JobAlreadyActive", told, due, warning=False)
            return
        if active and spec["concurrencyPolicy"] == "Replace":
            for job in self._jobs(cron):
                if not _end_of(job):
                    self._delete(cron, job)
        made = self._made(cron, due)
        if made is None:
            return
        meta = made["metadata"]
        reference = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            **{field: meta[field] for field in ("namespace", "name", "uid", "resourceVersion")},
        }

        def edit(obj: Obj) -> None:
            status = obj.setdefault("status", {})
            there = status.get("active") or []
            status["active"] = [*(one for one in there if one["uid"] != meta["uid"]), reference]
            status["lastScheduleTime"] = _text(due)

        self._world.set_status(key, edit)

    def _made(self, cron: Obj, due: float) -> Obj | None:
        template = copied(cron["spec"]["jobTemplate"])
        about = template.get("metadata") or {}
        # The name says the minute: a controller that died in between finds what it made.
        name = f"{cron['metadata']['name']}-{int(due) // 60}"
        notes = {
            **(about.get("annotations") or {}),
            "batch.kubernetes.io/cronjob-scheduled-timestamp": _text(due),
        }
        job = {
            "metadata": {
                "name": name,
                "namespace": cron["metadata"]["namespace"],
                "labels": about.get("labels") or {},
                "annotations": notes,
                "ownerReferences": [owner(cron)],
            },
            "spec": template["spec"],
        }
        try:
            made = self._world.create(_JOBS, job)
        except Refused as error:
            there = self._world.store.get(_JOBS, cron["metadata"]["namespace"], name)
            if there is None:
                told = f"Error creating job: {error.message}"
                self._world.event(cron, "FailedCreate", told, warning=True, by=_BY)
            return there
        self._world.event(cron, "SuccessfulCreate", f"Created job {name}", by=_BY)
        return made

    def _once(self, cron: Obj, reason: str, message: str, due: float, *, warning: bool = True) -> None:
        told = (cron["metadata"]["uid"], reason, due)
        if told not in self._said:
            self._said.add(told)
            self._world.event(cron, reason, message, warning=warning, by=_BY)


def _end_of(job: Obj) -> str:
    return next((one for one in ("Complete", "Failed") if holds(job, one) and find(job, one)), "")


def _text(at: float) -> str:
    return clock.seconds_text(at - clock.nanoseconds() / 1e9 + 0.5)
