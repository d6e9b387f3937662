"""What is counted of a JobSet: the pods it is made of, those that are ready, how often it was evicted."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tasks.targets.kube_found import Found
from tasks.targets.kube_objects import (
    Condition,
    Object,
    Objects,
    in_order,
    is_true,
    number,
    spec,
    status,
    subject,
)
from tasks.targets.kube_pods import attempt_of, started_at


def expected_pods(now: Objects, sets: Collection[str] = ()) -> int:
    """Returns how many pods a JobSet has when all of it runs, of some of its replicated jobs or of all. Where it is not
    known Kueue's Workload tells.
    """
    if now.jobset is None and now.deleted is None:
        podsets = spec(now.workload).get("podSets") or ()
        return sum(number(one.get("count", 1)) for one in podsets if not sets or one.get("name") in sets)
    jobs = spec(now.jobset or now.deleted).get("replicatedJobs") or ()
    counted = [one for one in jobs if not sets or one.get("name") in sets]
    return sum(number(one.get("replicas", 1)) * pods_each(one) for one in counted)


def pods_each(replicated_job: Object) -> int:
    """Returns how many pods one Job of a replicated job has."""
    return number(((replicated_job.get("template") or {}).get("spec") or {}).get("parallelism", 1))


def all_ready(now: Objects) -> bool:
    """Says whether all pods started, by what JobSet and Kueue tell of them where nobody listed them. In a restart their
    counts are those of the attempt before for a moment.
    """
    restarts = number(status(now.jobset).get("restarts"))
    if is_true(now.jobset, "RestartingJobSet") or any(attempt_of(job) < restarts for job in now.jobs):
        return False
    if is_true(now.workload, "PodsReady"):
        return True
    told = {one.get("name"): one for one in status(now.jobset).get("replicatedJobsStatus") or ()}
    wanted = spec(now.jobset).get("replicatedJobs") or ()
    return bool(wanted) and all(
        sum(number((told.get(one.get("name")) or {}).get(key)) for key in ("ready", "succeeded", "failed"))
        >= number(one.get("replicas", 1))
        for one in wanted
    )


def running_since(now: Objects, pods: Sequence[Object]) -> float | None:
    """Returns when the last of the pods started, in seconds since the epoch, or when Kueue saw all of them up."""
    times = [at for pod in pods if (at := started_at(pod)) is not None]
    ready = is_true(now.workload, "PodsReady")
    return max(times, default=ready.since if ready else None)


def evictions(workload: Object | None) -> int:
    """Returns how often Kueue took a Workload's quota back, as far as it counts that itself."""
    return sum(number(one.get("count")) for one in _counted(workload))


def seen_evictions(evicted: Condition | None, last: Found | None) -> int:
    """Returns how many evictions looks have seen: not every version of Kueue counts them."""
    seen = last.evictions if last else 0
    return seen + 1 if evicted is not None and not (last and last.evicted) else seen


def underlying(workload: Object | None) -> list[str]:
    """Returns what stood behind evictions, in Kueue's words."""
    return [str(one.get("underlyingCause") or "") for one in _counted(workload)]


def jobs_refused(now: Objects) -> Object | None:
    """Returns the last event that says that a Job of it could not be made."""
    told = [
        one
        for one in in_order(now.events)
        if one.get("reason") == "JobCreationFailed" and subject(one).get("kind") == "JobSet"
    ]
    return told[-1] if told else None


def _counted(workload: Object | None) -> Sequence[Object]:
    return (status(workload).get("schedulingStats") or {}).get("evictions") or ()
