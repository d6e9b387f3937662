"""Workloads of a cluster, whoever made them: listed, explained, read, deleted."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from runtime.contract.errors import BadInput, Place
from tasks.cloud.kubernetes import Kubernetes
from tasks.cloud.kubernetes_errors import KubernetesError, NotServed, PermissionDenied
from tasks.cloud.kubernetes_gke import GkeName
from tasks.cloud.kubernetes_kinds import (
    ALL_NAMESPACES,
    CLUSTER_QUEUE,
    EVENT,
    JOB,
    JOB_SET,
    LOCAL_QUEUE,
    NODE,
    POD,
    PRIORITY_CLASS,
    WORKLOAD,
    WORKLOAD_PRIORITY_CLASS,
    Kind,
)
from tasks.cloud.labels import LEASE, OWNER, SUBMISSION
from tasks.explain.kube_links import GkePlace, cluster_link, job_link, logs_link
from tasks.explain.kube_nodes import silent_nodes
from tasks.explain.kube_rules import kube_troubles
from tasks.explain.kube_scene import KubeScene
from tasks.explain.scene import Line, Trouble
from tasks.targets.kube_found import Found
from tasks.targets.kube_objects import JOBSET_UID, Object, Objects, label, name, select, spec, status, uid_of
from tasks.targets.kube_pods import Slot, failures, has_ended, node_of, slot_of
from tasks.targets.kube_queue import waits
from tasks.targets.kube_rows import Row, matching, rows
from tasks.targets.kube_states import look

_OF_JOBSETS = JOBSET_UID
"""A selector: whatever has this label."""

_TAIL = 60
"""Lines of a pod's log that are looked through for what is known."""

_READ = 3
"""Pods whose logs are looked through: those that failed, else the first."""


@dataclass(frozen=True)
class Desk:
    """Where workloads are asked about: a cluster's API, a namespace, and what cluster of GKE it is, if it is one."""

    kube: Kubernetes
    namespace: str
    gke: GkeName | None = None
    flags: str = ""
    """By which flags commands find here."""

    def all(self, kind: Kind, labels: str | None = None, namespace: str | None = None) -> Sequence[Object]:
        """Returns all objects of a kind; none where the cluster knows no such kind."""
        try:
            return self.kube.list(kind, namespace or self.namespace, labels=labels).items
        except NotServed:
            return ()

    def everywhere(self, kind: Kind) -> Sequence[Object]:
        """Returns all objects of a kind in all namespaces, or in ours where we may not see more."""
        try:
            return self.all(kind, namespace=ALL_NAMESPACES)
        except PermissionDenied:
            return self.all(kind)


@dataclass(frozen=True)
class Explained:
    """What is known of a workload, and where one sees more."""

    name: str
    namespace: str
    found: Found
    troubles: Sequence[Trouble]
    links: Sequence[tuple[str, str]] = ()
    unknown: Sequence[str] = field(default=())


def listing(desk: Desk, which: str, job: str) -> list[Row]:
    """Returns the workloads of a namespace that the filters let through. Raises BadInput, KubernetesError."""
    rows([], which, job)  # refuses wrong filters before anything is asked
    return rows(_known(desk), which, job)


def explanation(desk: Desk, workload: str, run: str = "") -> Explained:
    """Looks at a workload and says what keeps it. Raises BadInput when there is none of that name."""
    objects, unknown = everything(desk, workload)
    found = look(objects)
    nodes = _nodes(desk, objects, unknown)
    lines = list(_said(desk, objects, nodes or ()))
    classes: tuple[list[str] | None, list[str] | None] = None, None
    if objects.workload is None and not found.over:
        classes = _names(desk, PRIORITY_CLASS), _names(desk, WORKLOAD_PRIORITY_CLASS)
    cluster = desk.gke.cluster if desk.gke else ""
    queues = _cluster_queues(desk, objects)
    scene = KubeScene(
        workload, objects, found, desk.kube.now(), cluster, *classes, lines,
        run=run, nodes=nodes, cluster_queues=queues,
    )  # fmt: skip
    troubles = [
        replace(one, next=[_aimed(desk, command) for command in one.next]) for one in kube_troubles(scene)
    ]
    return Explained(
        workload, desk.namespace, found, troubles, list(_links(desk, workload, objects)), unknown
    )


def everything(desk: Desk, workload: str) -> tuple[Objects, list[str]]:
    """Returns all that there is of a workload, and what of it could not be seen."""
    jobset = _jobset(desk, workload)
    uid = uid_of(jobset)
    known: list[Object] = [jobset]
    unknown = []
    for kind, labels in ((JOB, f"{JOBSET_UID}={uid}"), (POD, f"{JOBSET_UID}={uid}"), (EVENT, None)):
        try:
            known += desk.all(kind, labels)
        except PermissionDenied as error:
            unknown.append(str(error))
    for kind in (WORKLOAD, LOCAL_QUEUE):
        try:
            known += desk.everywhere(kind)
        except PermissionDenied as error:
            unknown.append(str(error))
    return select(uid, known), unknown


@dataclass(frozen=True)
class PodLog:
    """One pod of a workload and which worker it is, from 0 over all slices; `worker` None: it is none."""

    pod: str
    worker: int | None
    container: str | None
    text: str


def logs(
    desk: Desk, workload: str, *, worker: int | None, pod: str | None, container: str | None, tail: int | None
) -> Iterator[PodLog]:
    """Yields what the pods of a workload have said so far, in the order of workers. Raises BadInput."""
    pods = _pods(desk, workload, worker, pod)
    _refuse_unknown(container, [one for _, one in pods], workload)
    for number, one in pods:
        for name_ in [container] if container else _containers(one):
            try:
                text = desk.kube.log(name(one), desk.namespace, container=name_, tail=tail)
            except KubernetesError as error:
                text = f"({error})"
            yield PodLog(name(one), number, name_ if container or len(_containers(one)) > 1 else None, text)


def chosen(desk: Desk, names: Sequence[str], pattern: str | None) -> list[Object]:
    """Returns the JobSets that are meant, by name or by a regular expression. Raises BadInput for names of none."""
    if pattern is not None:
        matches = matching(pattern)
        return [one for one in desk.all(JOB_SET) if matches(name(one))]
    return [_jobset(desk, one) for one in names]


def whose(jobset: Object) -> str:
    """Returns whose run a JobSet is of, as words for people; empty: somebody submitted it."""
    if label(jobset, SUBMISSION) or not (lease := label(jobset, LEASE)):
        return ""
    return f"lease {lease} of {label(jobset, OWNER) or 'somebody'}"


def _aimed(desk: Desk, command: str) -> str:
    """Returns a command about workloads with the flags that lead it to this cluster, before its comment."""
    if not command.startswith("slicebench workload ") or " … " in command or not desk.flags:
        return command
    what, gap, why = command.partition("   #")
    return f"{what} {desk.flags}{gap}{why}"


def _known(desk: Desk) -> list[Object]:
    found = [*desk.kube.list(JOB_SET, desk.namespace).items]
    for kind, labels in ((WORKLOAD, None), (JOB, _OF_JOBSETS), (POD, _OF_JOBSETS)):
        found += desk.all(kind, labels)
    return found


def _jobset(desk: Desk, workload: str) -> Object:
    found = desk.kube.find(JOB_SET, workload, desk.namespace)
    if found is not None:
        return found
    there = [name(one) for one in desk.kube.list(JOB_SET, desk.namespace).items]
    near = difflib.get_close_matches(workload, there, n=3)
    fix = f"did you mean {' or '.join(near)}?" if near else "see slicebench workload list"
    raise BadInput(
        f"there is no workload {workload} in namespace {desk.namespace} of {desk.kube.access.name}", fix=fix
    )


def _pods(desk: Desk, workload: str, worker: int | None, pod: str | None) -> list[tuple[int | None, Object]]:
    """Returns pods with their numbers: workers count over all slices, and a later pod of one worker is the same."""
    found = desk.all(POD, f"{JOBSET_UID}={uid_of(_jobset(desk, workload))}")
    slots: list[Slot] = sorted({slot_of(one) for one in found})
    numbered = sorted(
        ((slots.index(slot_of(one)), name(one), one) for one in found), key=lambda three: three[:2]
    )
    picked = [
        (number, one)
        for number, name_, one in numbered
        if (worker is None or number == worker) and (pod is None or name_ == pod)
    ]
    if not picked and (pod or worker is not None):
        which = f"pod {pod}" if pod else f"worker {worker}"
        there = ", ".join(name_ for _, name_, _ in numbered) or "none"
        raise BadInput(f"workload {workload} has no {which}", fix=f"its pods: {there}")
    return list(picked)


def _refuse_unknown(container: str | None, pods: Sequence[Object], workload: str) -> None:
    kinds = ("containers", "initContainers")  # sidecars of Kubernetes' own kind are among the latter
    there = sorted({str(one["name"]) for pod in pods for kind in kinds for one in spec(pod).get(kind) or ()})
    if container is not None and there and container not in there:
        raise BadInput(
            f"workload {workload} has no container {container}", fix=f"its containers: {', '.join(there)}"
        )


def _containers(pod: Object) -> list[str]:
    return [str(one.get("name")) for one in (pod.get("spec") or {}).get("containers") or ()]


def _nodes(desk: Desk, objects: Objects, unknown: list[str]) -> Sequence[Object] | None:
    """Returns the nodes of the cluster where pods are on any; None where we may not look."""
    if not any(node_of(pod) and not has_ended(pod) for pod in objects.pods):
        return ()
    try:
        return desk.kube.list(NODE).items
    except PermissionDenied as error:
        unknown.append(str(error))
        return None


def _cluster_queues(desk: Desk, objects: Objects) -> Sequence[Object]:
    """Returns what quota there is, for what waits for some; nothing where we may not look."""
    if objects.workload is None or not waits(objects.workload):
        return ()
    try:
        return desk.all(CLUSTER_QUEUE)
    except PermissionDenied:
        return ()


def _said(desk: Desk, objects: Objects, nodes: Sequence[Object]) -> Iterator[Line]:
    """Yields the last lines of the pods that failed, else of the first that has any. Of a node that does not answer
    nobody can get any, which takes half a minute to say.
    """
    silent = {node for node, _, _ in silent_nodes(objects.pods, nodes)} if nodes else set()
    pods = sorted(objects.pods, key=lambda pod: (not failures(pod), slot_of(pod), name(pod)))
    for pod in [one for one in pods if node_of(one) not in silent][:_READ]:
        if status(pod).get("phase") == "Pending":
            continue
        for container in _containers(pod)[:1]:
            try:
                text = desk.kube.log(name(pod), desk.namespace, container=container, tail=_TAIL)
            except KubernetesError:
                continue
            place = f"Pod {name(pod)} log"
            yield from (Line(Place(place), line) for line in text.splitlines())


def _names(desk: Desk, kind: Kind) -> list[str] | None:
    try:
        return [name(one) for one in desk.all(kind)]
    except PermissionDenied:
        return None


def _links(desk: Desk, workload: str, objects: Objects) -> Iterable[tuple[str, str]]:
    if desk.gke is None:
        return
    place = GkePlace(desk.gke.project, desk.gke.location, desk.gke.cluster, desk.namespace)
    yield "cluster", cluster_link(place)
    if objects.jobs:
        yield "first Job", job_link(place, min(map(name, objects.jobs)))
    yield "logs", logs_link(place, workload)
    cause = look(objects).cause
    if cause is not None and cause.pod:
        yield "logs of the pod that failed first", logs_link(place, workload, cause.pod)
