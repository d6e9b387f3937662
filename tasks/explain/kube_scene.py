"""What rules about troubles on Kubernetes look at: a JobSet's objects, what was found of it, what its workers said."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from runtime.contract.errors import Place
from tasks.explain.scene import Line, Seen, Trouble
from tasks.explain.told import MOST_EVIDENCE
from tasks.targets.kube_cause import Cause
from tasks.targets.kube_found import Found
from tasks.targets.kube_objects import Condition, Object, Objects, in_order, name, said, subject

_LONGEST = 600
"""Letters of what an object says that are shown: some webhooks answer with the whole object."""


@dataclass(frozen=True)
class KubeScene:
    """Everything that rules may look at. `now` is seconds since the epoch, by the cluster's clock, as all times in
    its objects are.

    `priority_classes` and `workload_priority_classes` are names of those that the cluster has; None: nobody asked.
    `lines` are what workers wrote last, and `workers` what their streams say they do. `nodes` are those of the
    cluster; None: nobody could look. `cluster_queues` are those that may be seen.
    """

    workload: str
    objects: Objects
    found: Found
    now: float
    cluster: str = ""
    priority_classes: Collection[str] | None = None
    workload_priority_classes: Collection[str] | None = None
    lines: Sequence[Line] = ()
    workers: Sequence[Seen] = ()
    nodes: Collection[Object] | None = None
    cluster_queues: Sequence[Object] = ()

    @property
    def logs(self) -> str:
        """The command that shows what a worker wrote."""
        return f"slicebench workload logs {self.workload}"

    @property
    def delete(self) -> str:
        """The command that deletes it, so that what it holds is free."""
        return f"slicebench workload delete {self.workload}"

    @property
    def resize(self) -> str:
        """The command that gives the cluster more machines."""
        return f"slicebench cluster resize {self.cluster or 'CLUSTER'} --slices N"

    @property
    def describe(self) -> str:
        """The command that shows what the cluster has."""
        return f"slicebench cluster describe {self.cluster or 'CLUSTER'}"


KubeRule = Callable[[KubeScene], Trouble | None]


def trouble(
    kind: str, what: str, evidence: Iterable[Line], commands: Sequence[str], unknown: str = ""
) -> Trouble:
    """Returns a trouble with the first of its evidence."""
    return Trouble(kind, what, tuple(evidence)[:MOST_EVIDENCE], tuple(commands), unknown)


def of_condition(one: Object | None, found: Condition) -> Line:
    """Returns what a condition says, as evidence."""
    return line(one, f"{found.reason}: {found.message}", f" condition {found.type}")


def of_event(event: Object) -> Line:
    """Returns what an event says, as evidence."""
    about = subject(event)
    place = Place(f"event on {about.get('kind')} {about.get('name')}")
    return Line(place, _short(f"{event.get('reason')}: {said(event)}"), said=True)


def of_cause(cause: Cause) -> Line:
    """Returns the first cause of a failure, as evidence."""
    place = Place(f"Pod {cause.pod}" if cause.pod else f"Job {cause.job}")
    return Line(place, _short(str(cause)), said=True)


def line(one: Object | None, text: str, where: str = "") -> Line:
    """Returns what an object says, as evidence."""
    return Line(Place(f"{(one or {}).get('kind', 'object')} {name(one)}{where}"), _short(text), said=True)


def events(scene: KubeScene, reason: str, *kinds: str) -> list[Object]:
    """Returns the events of a reason, the latest first."""
    told = [
        event
        for event in in_order(scene.objects.events)
        if event.get("reason") == reason and (not kinds or subject(event).get("kind") in kinds)
    ]
    return told[::-1]


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"
