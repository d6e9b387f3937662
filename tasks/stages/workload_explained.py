"""What is known of one workload: all of its objects, what keeps it, what its pods said, and where one sees more."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tasks.cloud.kubernetes_errors import PermissionDenied
from tasks.cloud.kubernetes_kinds import (
    CLUSTER_QUEUE,
    EVENT,
    JOB,
    LOCAL_QUEUE,
    NODE,
    POD,
    PRIORITY_CLASS,
    WORKLOAD,
    WORKLOAD_PRIORITY_CLASS,
    Kind,
)
from tasks.cloud.kubernetes_labels import JOBSET_UID
from tasks.explain.kube_links import GkePlace, cluster_link, job_link, logs_link, metrics_link
from tasks.explain.kube_rules import kube_troubles
from tasks.explain.kube_scene import KubeScene
from tasks.explain.scene import Trouble
from tasks.stages.workload_desk import Desk, the_jobset
from tasks.stages.workload_heard import last_lines, workers_seen
from tasks.targets.kube_found import Found, KubeState
from tasks.targets.kube_objects import Object, Objects, name, select, uid_of
from tasks.targets.kube_pods import has_ended, node_of
from tasks.targets.kube_queue import waits
from tasks.targets.kube_states import look

_ELSEWHERE = re.compile(r" ?--namespace \S+")
"""What says where to look, of flags that lead to a cluster."""


@dataclass(frozen=True)
class Explained:
    """What is known of a workload, and where one sees more."""

    name: str
    namespace: str
    found: Found
    troubles: Sequence[Trouble]
    links: Sequence[tuple[str, str]] = ()
    unknown: Sequence[str] = ()


def explanation(desk: Desk, workload: str) -> Explained:
    """Looks at a workload and says what keeps it. Raises BadInput when there is none of that name."""
    objects, unknown = everything(desk, workload)
    found = look(objects)
    nodes = _nodes(desk, objects, unknown)
    lines = list(last_lines(desk, objects, nodes or ()))
    workers = list(workers_seen(desk, objects, nodes or ())) if found.state == KubeState.RUNNING else []
    classes: tuple[list[str] | None, list[str] | None] = None, None
    if objects.workload is None and not found.over:
        classes = _names(desk, PRIORITY_CLASS), _names(desk, WORKLOAD_PRIORITY_CLASS)
    cluster = desk.gke.cluster if desk.gke else ""
    queues = _cluster_queues(desk, objects)
    scene = KubeScene(
        workload, objects, found, desk.kube.now(), cluster, *classes, lines, workers,
        nodes=nodes, cluster_queues=queues,
    )  # fmt: skip
    troubles = [
        replace(one, next=[_aimed(desk, command) for command in one.next if _can_be_typed(desk, command)])
        for one in kube_troubles(scene)
    ]
    return Explained(
        workload, desk.namespace, found, troubles, list(_links(desk, workload, objects)), unknown
    )


def everything(desk: Desk, workload: str) -> tuple[Objects, list[str]]:
    """Returns all that there is of a workload, and what of it could not be seen."""
    jobset = the_jobset(desk, workload)
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


def _aimed(desk: Desk, command: str) -> str:
    """Returns a command about workloads or clusters with the flags that lead it to this one, before its comment."""
    flags = ""
    if command.startswith("slicebench workload ") and " … " not in command:
        flags = _ELSEWHERE.sub("", desk.flags) if " --all-namespaces" in command else desk.flags
    elif command.startswith("slicebench cluster ") and desk.gke is not None:
        location = f"--location {desk.gke.location} " if " describe " in command else ""
        flags = f"{location}--project {desk.gke.project}"
    what, gap, why = command.partition("   #")
    return f"{what} {flags}{gap}{why}" if flags else command


def _can_be_typed(desk: Desk, command: str) -> bool:
    """Whether a command means something here: those about clusters are for those of GKE."""
    return desk.gke is not None or not command.startswith("slicebench cluster ")


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
    yield "metrics", metrics_link(place)
    if objects.jobs:
        yield "first Job", job_link(place, min(map(name, objects.jobs)))
    yield "logs", logs_link(place, workload)
    cause = look(objects).cause
    if cause is not None and cause.pod:
        yield "logs of the pod that failed first", logs_link(place, workload, cause.pod)
