"""A workload as it is told by its cluster: its objects, its state, which pod is which worker, what became of nodes."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from tasks.cloud.kubernetes import Kubernetes
from tasks.cloud.kubernetes_errors import KubernetesError, NotServed, PermissionDenied
from tasks.cloud.kubernetes_kinds import JOB, JOB_SET, NODE, POD, WORKLOAD, Kind, Object
from tasks.cloud.kubernetes_labels import JOB_UID, JOBSET_UID
from tasks.cloud.kubernetes_watch import Change
from tasks.config.gke_target import GkeTargetConfig
from tasks.targets import kube_pathways
from tasks.targets.kube_cause import TAKEN, failure_of
from tasks.targets.kube_found import DELETED, RAN_TOO_LONG, Found, KubeState
from tasks.targets.kube_objects import is_true, metadata, select, uid_of
from tasks.targets.kube_pods import node_of, slot_of
from tasks.targets.kube_states import look
from tasks.targets.kube_template import SLICE_JOB, container_names

_MANY, _SELDOM_S = 100, 0.25
"""Of so many objects not every change is worth a look at all of them; seconds between looks then."""


class Seen:
    """What a watch has told of one JobSet. `found` is what the last look came to."""

    def __init__(self, config: GkeTargetConfig, uid: str) -> None:
        self._config, self._uid = config, uid
        self._objects: dict[str, Object] = {}
        self._deleted: Object | None = None
        self._looked_at = 0.0
        self._names = {name: number for number, name in enumerate(container_names(config))}
        self._workers: dict[tuple[str, str], int] = {}
        self.found: Found | None = None

    @property
    def workload(self) -> Object | None:
        """Kueue's Workload of it, if there is one."""
        return next((one for one in self._objects.values() if one.get("kind") == "Workload"), None)

    def take(self, change: Change) -> bool:
        """Takes what changed; returns whether the state is news: before its JobSet was told of, nothing is known."""
        one = change.object
        if change.kind == POD:
            self._know(one)
        if change.type == "DELETED":
            self._objects.pop(uid_of(one), None)
            if change.kind == JOB_SET:
                self._deleted = one
        else:
            self._objects[uid_of(one)] = one
        if change.kind == POD and len(self._objects) > _MANY:
            now = time.monotonic()
            if now - self._looked_at < _SELDOM_S:
                return False
        return self.look()

    def look(self) -> bool:
        """Looks at all; returns whether the state is news."""
        self._looked_at = time.monotonic()
        before = self.found
        self.found = look(select(self._uid, self._objects.values(), self._deleted), before)
        known = before if before is not None and before.seen else None
        return self.found.seen and (known is None or known.key != self.found.key)

    def replace(self, objects: Sequence[Object]) -> Found:
        """Takes what is there now in place of all that was told, and looks."""
        if self._deleted is None and not any(uid_of(one) == self._uid for one in objects):
            self._deleted = self._objects.get(self._uid)
        self._objects = {uid_of(one): one for one in objects}
        self.look()
        assert self.found is not None
        return self.found

    def taken(self) -> str:
        """Returns what a Job says that failed because a pod of it was taken away; empty: none did."""
        for job in self._objects.values():
            why = failure_of(job) if job.get("kind") == "Job" else None
            if why is not None and TAKEN in why.message:
                return f"Job {metadata(job).get('name')}: {why.reason}: {why.message}"
        return ""

    def worker_of(self, pod_uid: str, container: str) -> int | None:
        """Returns which worker a container is or was; None where it is none."""
        return self._workers.get((pod_uid, container))

    def _know(self, pod: Object) -> None:
        for name, number in self._names.items():
            if (worker := worker_of(self._config, pod, number)) is not None:
                self._workers[uid_of(pod), name] = worker

    def nodes(self, but: Collection[int] = ()) -> Mapping[str, str]:
        """Returns the node of each pod by the pod's name, as far as they have any; but for pods of these workers."""
        pods = [one for one in self._objects.values() if one.get("kind") == "Pod"]
        return {
            str(metadata(pod).get("name")): node
            for pod in pods
            if (node := node_of(pod)) and not self._is_only(pod, but)
        }

    def _is_only(self, pod: Object, workers: Collection[int]) -> bool:
        own = {worker for (uid, _), worker in self._workers.items() if uid == uid_of(pod)}
        return bool(own) and own <= set(workers)


def worker_of(config: GkeTargetConfig, pod: Object, container: int) -> int | None:
    """Returns which worker the so many-th worker container of a pod is; None for a pod that is none of the workers'."""
    slot = slot_of(pod)
    if config.pathways is not None:
        return 0 if slot.replicated_job == kube_pathways.HEAD else None
    if slot.replicated_job != SLICE_JOB:
        return None
    host = slot.job_index * config.shape.hosts + max(slot.index, 0)
    return host * config.containers_per_host + container


def objects_of(cluster: Kubernetes, name: str, uid: str) -> list[Object]:
    """Returns all that is there of a JobSet now."""
    found = [cluster.find(JOB_SET, name)]
    selections: Sequence[tuple[Kind, str]] = (
        (WORKLOAD, f"{JOB_UID}={uid}"),
        (JOB, f"{JOBSET_UID}={uid}"),
        (POD, f"{JOBSET_UID}={uid}"),
    )
    for kind, selector in selections:
        try:
            found += cluster.list(kind, labels=selector).items
        except (NotServed, PermissionDenied):
            if kind != WORKLOAD:
                raise
    return [one for one in found if one is not None and (one.get("kind") != "JobSet" or uid_of(one) == uid)]


def lost_nodes(cluster: Kubernetes, nodes: Mapping[str, str]) -> str:
    """Returns in words which of some pods' nodes are gone or silent; empty: none, or we may not look."""
    told: dict[str, str] = {}
    for pod, node in nodes.items():
        if node in told:
            continue
        try:
            there = cluster.find(NODE, node)
        except KubernetesError:
            continue
        if there is None:
            told[node] = f"node {node} of pod {pod} is gone"
        elif is_true(there, "Ready") is None:
            told[node] = f"node {node} of pod {pod} does not answer"
    return "; ".join(told.values())


def failed_and_restarted(found: Found, counted: int) -> str:
    """Returns why JobSet started a workload again by its own fault, which counts there; empty: it did not. `counted` is
    how often it had before.
    """
    if found.counted <= counted:
        return ""
    cause = found.causes.get(found.restarts - 1) or found.cause
    return f"JobSet started it again{f' after: {cause}' if cause else ''}"


def taken_away(found: Found, began: int) -> str:
    """Returns why a workload does not go on as the start that is followed: it was preempted, failed because its
    hardware was taken away, or was started again by JobSet or Kueue for what was no fault of its own; empty: it does.
    `began` is which start that was.
    """
    if found.state == KubeState.PREEMPTED:
        return f"{found.reason}: {found.message}" if found.reason else found.message
    if found.state == KubeState.FAILED and found.cause is not None and found.cause.of_hardware:
        return str(found.cause)
    if found.attempt > began:
        cause = found.causes.get(began - 1) or found.cause
        return f"it was started again{f' after: {cause}' if cause else ''}"
    return ""


def ended_from_outside(found: Found) -> bool:
    """Says whether something made an end of a workload that its workers cannot know of: the kernel for want of memory,
    its time limit, or somebody who deleted a pod or its JobSet.
    """
    by_others = found.cause is not None and found.cause.kind in ("out_of_memory", "deleted")
    return by_others or found.took_too_long or (found.state == KubeState.FAILED and found.reason == DELETED)


def how_it_ended(found: Found, limit_s: int | None) -> str:
    """Returns how a workload ended, in words; empty where that was well. `limit_s`: so long it may take."""
    if found.state == KubeState.SUCCEEDED:
        return ""
    by_kueue = RAN_TOO_LONG in found.reason  # which takes its pods away as well
    told = str(found.cause) if found.cause and not by_kueue else f"{found.reason}: {found.message}"
    if found.took_too_long and limit_s:
        return f"it took longer than the {limit_s} s of limits.workload_s: {told}"
    return told


def waiting(found: Found) -> Found:
    """Returns the state as one tells it of a workload that never began: evicted, it waits as before."""
    return replace(found, state=KubeState.QUEUED) if found.state == KubeState.PREEMPTED else found
