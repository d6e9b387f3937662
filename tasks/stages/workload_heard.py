"""What the pods of a workload said last: lines that rules look through, and what the workers of a run are doing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from runtime.contract.errors import Place
from tasks.cloud.kubernetes_errors import KubernetesError
from tasks.cloud.labels import LEASE, SUBMISSION
from tasks.explain.kube_nodes import silent_nodes
from tasks.explain.scene import Line, Seen
from tasks.stages.evidence import last_seen
from tasks.stages.workload_desk import Desk
from tasks.targets.kube_objects import Object, Objects, label, name, status
from tasks.targets.kube_pods import container_names, failures, node_of, numbered, slot_of

_TAIL = 60
"""Lines of a pod's log that are looked through for what is known."""

_READ = 3
"""Pods whose logs are looked through: those that failed, else the first."""

_WORKERS = 32
"""Of so many workers at most it is looked what they are doing: each is a call."""


def last_lines(desk: Desk, objects: Objects, nodes: Sequence[Object]) -> Iterator[Line]:
    """Yields the last lines of the pods that failed, else of the first that has any."""
    pods = sorted(
        _readable(objects.pods, nodes), key=lambda pod: (not failures(pod), slot_of(pod), name(pod))
    )
    for pod in pods[:_READ]:
        yield from _log(desk, pod)


def workers_seen(desk: Desk, objects: Objects, nodes: Sequence[Object]) -> Iterator[Seen]:
    """Yields what the workers of a run were last seen doing, by the streams that its pods print; nothing of the program
    of somebody who submitted it.
    """
    if not label(objects.jobset, LEASE) or label(objects.jobset, SUBMISSION):
        return
    for worker, pod in numbered(_readable(objects.pods, nodes))[:_WORKERS]:
        if (seen := last_seen(worker, _log(desk, pod))) is not None:
            yield seen


def _readable(pods: Sequence[Object], nodes: Sequence[Object]) -> list[Object]:
    """Returns the pods that may have said something. Of a node that does not answer nobody can get any log, which takes
    half a minute to say.
    """
    silent = {node for node, _, _ in silent_nodes(pods, nodes)} if nodes else set()
    return [one for one in pods if node_of(one) not in silent and status(one).get("phase") != "Pending"]


def _log(desk: Desk, pod: Object) -> Iterator[Line]:
    for container in container_names(pod)[:1]:
        try:
            text = desk.kube.log(name(pod), desk.namespace, container=container, tail=_TAIL)
        except KubernetesError:
            continue
        place = Place(f"Pod {name(pod)} log")
        yield from (Line(place, line) for line in text.splitlines())
