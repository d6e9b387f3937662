"""The rows of a list of workloads: one for each JobSet or Workload of a namespace, with filters as xpk names them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from runtime.contract.errors import BadInput
from tasks.cloud.kubernetes_labels import REPLICATED_JOB
from tasks.targets.kube_counts import expected_pods, pods_each
from tasks.targets.kube_found import Found, KubeState
from tasks.targets.kube_objects import (
    Object,
    Objects,
    created_at,
    label,
    metadata,
    name,
    namespace,
    number,
    select,
    spec,
    status,
    uid_of,
)
from tasks.targets.kube_pods import current, is_running
from tasks.targets.kube_queue import Position, priority_of
from tasks.targets.kube_states import look

FILTERS: Mapping[str, Collection[KubeState]] = {
    "EVERYTHING": frozenset(KubeState),
    "FINISHED": {KubeState.SUCCEEDED, KubeState.FAILED, KubeState.GONE},
    "RUNNING": {KubeState.STARTING, KubeState.RUNNING},
    "QUEUED": {KubeState.QUEUED, KubeState.PROVISIONING, KubeState.PREEMPTED},
    "FAILED": {KubeState.FAILED},
    "SUCCESSFUL": {KubeState.SUCCEEDED},
    "SUCCEEDED": {KubeState.SUCCEEDED},
    "PROVISIONING": {KubeState.PROVISIONING},
    "STARTING": {KubeState.STARTING},
    "PREEMPTED": {KubeState.PREEMPTED},
}
"""What each filter lets through. RUNNING, QUEUED, FAILED and SUCCESSFUL share out among them all that is there."""


@dataclass(frozen=True)
class Row:
    """One workload. Times are seconds since the epoch; workers are pods, those with accelerators where any has.

    `done` are workers whose program ended well. `kind` is what owns the Workload: JobSet, or another of Kueue's.
    """

    name: str
    namespace: str
    kind: str
    created: float | None
    priority: str
    needed: int
    running: int
    done: int
    status: KubeState
    reason: str
    message: str
    time: float | None
    attempt: int
    position: Position | None


def rows(known: Iterable[Object], which: str = "EVERYTHING", job: str = "") -> list[Row]:
    """Returns the rows that a filter lets through, the oldest first. `job` is a regular expression that is looked for
    in names. Raises BadInput for a filter that is none, and for an expression that is none.
    """
    states, matches = states_of(which), matching(job)
    objects = list(known)
    found = [_row(one) for one in _workloads(objects)]
    shown = [row for row in found if row.status in states and matches(row.name)]
    return sorted(shown, key=lambda row: (row.created or 0.0, row.name))


def states_of(which: str) -> Collection[KubeState]:
    """Returns the states that a filter lets through. Raises BadInput."""
    if (states := FILTERS.get(which.upper())) is None:
        raise BadInput(f"--status {which}: there is no such filter", fix=f"there are: {', '.join(FILTERS)}")
    return states


def matching(pattern: str) -> _Matches:
    """Returns what says whether a name matches. Raises BadInput."""
    try:
        return _Matches(re.compile(pattern))
    except re.error as error:
        raise BadInput(f"--filter-by-job {pattern}: it is no regular expression: {error}") from None


@dataclass(frozen=True)
class _Matches:
    pattern: re.Pattern[str]

    def __call__(self, text: str) -> bool:
        return self.pattern.search(text) is not None


def _workloads(objects: Sequence[Object]) -> list[Objects]:
    """Returns the objects of each JobSet, and each Workload that belongs to no JobSet that is there."""
    uids = [uid_of(one) for one in objects if one.get("kind") == "JobSet"]
    sets = [select(uid, objects) for uid in uids]
    taken = {uid_of(one.workload) for one in sets if one.workload}
    all_ = [one for one in objects if one.get("kind") == "Workload"]
    queues = [one for one in objects if one.get("kind") == "LocalQueue"]
    alone = [one for one in all_ if uid_of(one) not in taken]
    return sets + [Objects(workload=one, neighbours=all_, queues=queues) for one in alone]


def _row(now: Objects) -> Row:
    found = look(now)
    needed, running, done = _workers(now, found)
    owner: Object = next(iter(metadata(now.workload).get("ownerReferences") or ()), {})
    one = now.jobset or now.workload
    return Row(
        name(now.jobset) or str(owner.get("name") or name(now.workload)),
        namespace(one),
        "JobSet" if now.jobset else str(owner.get("kind") or "Workload"),
        created_at(one),
        priority_of(now.workload) if now.workload else "",
        needed,
        running,
        done,
        found.state,
        found.reason,
        found.message,
        found.since,
        found.attempt,
        found.position,
    )


def _workers(now: Objects, found: Found) -> tuple[int, int, int]:
    """Returns how many workers it needs, how many of them run, and how many have ended well."""
    sets = _worker_sets(now)
    if found.state == KubeState.SUCCEEDED:
        return expected_pods(now, sets), 0, expected_pods(now, sets)
    if not now.jobs and not now.pods:
        return (expected_pods(now, sets), *_as_told(now, sets))
    pods = current(now.pods, now.workload, found.restarts)
    mine = [pod for pod in pods if not sets or label(pod, REPLICATED_JOB) in sets]
    done = sum(status(pod).get("phase") == "Succeeded" for pod in mine)
    return expected_pods(now, sets), sum(map(is_running, mine)), done


def _as_told(now: Objects, sets: Collection[str]) -> tuple[int, int]:
    """What JobSet tells where nobody listed pods, or they are gone; it counts Jobs. What Kueue does beside it is the
    number of pods that it need not keep quota for any more.
    """
    each = {one.get("name"): pods_each(one) for one in spec(now.jobset).get("replicatedJobs") or ()}
    told = [
        one
        for one in status(now.jobset).get("replicatedJobsStatus") or ()
        if not sets or one.get("name") in sets
    ]
    running = sum(number(one.get("ready")) * each.get(one.get("name"), 0) for one in told)
    done = sum(number(one.get("succeeded")) * each.get(one.get("name"), 0) for one in told)
    reclaimable = sum(
        number(one.get("count"))
        for one in status(now.workload).get("reclaimablePods") or ()
        if not sets or one.get("name") in sets
    )
    return running, max(done, reclaimable)


def _worker_sets(now: Objects) -> set[str]:
    """Returns the names of the sets of pods that have accelerators; empty: none has, and all count."""
    return {one_name for one_name, pod in _templates(now) if _accelerated(pod)}


def _templates(now: Objects) -> Iterable[tuple[str, Object]]:
    for one in spec(now.jobset).get("replicatedJobs") or ():
        job = (one.get("template") or {}).get("spec") or {}
        yield str(one.get("name")), (job.get("template") or {}).get("spec") or {}
    if now.jobset is None:
        for one in spec(now.workload).get("podSets") or ():
            yield str(one.get("name")), (one.get("template") or {}).get("spec") or {}


def _accelerated(pod: Object) -> bool:
    selector = pod.get("nodeSelector") or {}
    if any("accelerator" in key for key in selector):
        return True
    asked: list[str] = []
    for container in pod.get("containers") or ():
        resources = container.get("resources") or {}
        asked += [*(resources.get("limits") or {}), *(resources.get("requests") or {})]
    return any(resource in ("google.com/tpu", "nvidia.com/gpu", "amd.com/gpu") for resource in asked)
