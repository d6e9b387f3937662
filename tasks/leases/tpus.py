"""The inventories of Cloud TPU: nodes and queued resources, known by their labels, in all zones of the projects
that the ledger names. FAILED and SUSPENDED queued resources and PREEMPTED nodes are there: they hold quota."""

from __future__ import annotations

import abc
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Generic, TypeVar

from runtime.contract.errors import InfrastructureError
from tasks.cloud.google_calls import NotEnabled, is_left_out
from tasks.cloud.labels import read_labels
from tasks.cloud.timing import Timing
from tasks.cloud.tpu import CloudTpu
from tasks.cloud.tpu_errors import NotFound
from tasks.cloud.tpu_model import Node, Queued
from tasks.cloud.tpu_transport import ENDPOINT_VARIABLE
from tasks.leases.inventory import Found, Pace, PartlyListed
from tasks.leases.ledger import Ledger
from tasks.leases.resource import ResourceRef

NODE = "tpu_node"
QUEUED = "tpu_queued_resource"

PROJECT_VARIABLE = "SLICEBENCH_PROJECT"
"""Environment variable with the project to use; the reaper looks there as well as where the ledger says."""

PACE = Pace(look_every_s=3.0, goes_within_s=900.0, remote=True)
"""Deleting a large slice takes minutes; the API takes some calls a second at most."""

_SETTLE_S = 20.0
"""A create call whose caller died or gave up may still take effect for so long."""

_TIMING = Timing(total_s=30.0)
"""Short: whoever releases looks again and again, and renews in between."""

Thing = TypeVar("Thing", Node, Queued)


class InCloudTpu:
    """What all inventories of Cloud TPU share. A scope is "project/zone"."""

    usual: ClassVar[Pace] = PACE

    def __init__(self, ledger: Ledger, *, pace: Pace | None = None, settle_s: float = _SETTLE_S) -> None:
        self.pace = pace or self.usual
        self.settle_s = settle_s
        self._ledger = ledger

    def sees(self, scope: str) -> bool:
        """See Inventory. Any project can be asked; what may not be asked shows as an error."""
        return scope.count("/") == 1


class _Labelled(InCloudTpu, abc.ABC, Generic[Thing]):
    """What both kinds of things share. The uid tells one thing from a later one of its name."""

    kind: str
    after: frozenset[str]

    def list(self, lease_id: str | None) -> Sequence[Found]:
        """See Inventory."""
        return in_projects(
            self.kind,
            projects_of(self._ledger, lease_id),
            lambda project: self._in_project(project, lease_id),
        )

    def _in_project(self, project: str, lease_id: str | None) -> Iterator[Found]:
        for thing in self._everything(CloudTpu(project, timing=_TIMING)):
            labelled = read_labels(thing.labels)
            ours = labelled is not None and labelled.ledger_id == self._ledger.id
            if labelled and ours and lease_id in (None, labelled.lease_id):
                yield Found(labelled.lease_id, self._reference(thing))

    def get(self, ref: ResourceRef) -> ResourceRef | None:
        """See Inventory. Without a uid its name and this ledger's label tell it; they name one lease only."""
        project, _, zone = ref.scope.partition("/")
        try:
            thing = self._look(CloudTpu(project, timing=_TIMING), zone, ref.name)
        except NotFound:
            return None
        if ref.uid is not None:
            return ref if ref.uid == thing.uid else None
        labelled = read_labels(thing.labels)
        if labelled is None or labelled.ledger_id != self._ledger.id:
            return None
        return replace(ref, uid=thing.uid)

    def delete(self, ref: ResourceRef, *, force: bool) -> None:
        """See Inventory. What has our name but is another thing by now is left alone."""
        if self.get(ref) is not None:
            project, _, zone = ref.scope.partition("/")
            self._ask(CloudTpu(project, timing=_TIMING), zone, ref.name)

    def _reference(self, thing: Thing) -> ResourceRef:
        return ResourceRef(self.kind, f"{thing.project}/{thing.zone}", thing.name, thing.uid)

    @abc.abstractmethod
    def _everything(self, tpu: CloudTpu) -> Sequence[Thing]:
        """Returns all there is of this kind, in all zones."""

    @abc.abstractmethod
    def _look(self, tpu: CloudTpu, zone: str, name: str) -> Thing:
        """Returns one thing. Raises when there is none."""

    @abc.abstractmethod
    def _ask(self, tpu: CloudTpu, zone: str, name: str) -> None:
        """Asks for a deletion."""


class TpuNodeInventory(_Labelled[Node]):
    """TPU VMs. Those of a queued resource carry its labels, and go with it; any that stay are ours to delete."""

    kind = NODE
    after = frozenset({QUEUED})

    def _everything(self, tpu: CloudTpu) -> Sequence[Node]:
        return tpu.nodes()

    def _look(self, tpu: CloudTpu, zone: str, name: str) -> Node:
        return tpu.node(zone, name)

    def _ask(self, tpu: CloudTpu, zone: str, name: str) -> None:
        tpu.delete_node(zone, name)


class TpuQueuedInventory(_Labelled[Queued]):
    """Queued resources, in whatever state. Labels are on the nodes they ask for."""

    kind = QUEUED
    after: frozenset[str] = frozenset()

    def _everything(self, tpu: CloudTpu) -> Sequence[Queued]:
        return tpu.queued()

    def _look(self, tpu: CloudTpu, zone: str, name: str) -> Queued:
        return tpu.queued_resource(zone, name)

    def _ask(self, tpu: CloudTpu, zone: str, name: str) -> None:
        tpu.delete_queued(zone, name)


def in_projects(
    kind: str, projects: Mapping[str, bool], look: Callable[[str], Iterable[Found]]
) -> Sequence[Found]:
    """Returns what there is in all projects. Raises PartlyListed when some do not answer: the others count.

    `projects` says of each whether a lease names it: only then an API that is not enabled there is worth a word.
    """
    found: list[Found] = []
    silent: dict[str, InfrastructureError] = {}
    for project, is_named in projects.items():
        try:
            found += look(project)
        except NotEnabled as error:
            if is_named:
                silent[project] = error
        except InfrastructureError as error:
            silent[project] = error
    if silent:
        raise PartlyListed(kind, found, silent)
    return found


def projects_of(
    ledger: Ledger,
    lease_id: str | None,
    kinds: Sequence[str] = (NODE, QUEUED),
    endpoint: str = ENDPOINT_VARIABLE,
) -> Mapping[str, bool]:
    """Returns the projects where a lease made such things, or (None, or a lease the ledger lacks) any lease did.

    Where any lease counts, the environment's project is looked into as well: False says that no lease names it.
    """
    lease = ledger.read(lease_id) if lease_id else None
    leases = [lease] if lease else ledger.listing().leases
    found = {ref.scope.partition("/")[0] for lease in leases for ref in lease.resources if ref.kind in kinds}
    own = os.environ.get(PROJECT_VARIABLE)
    if lease is None and own and not is_left_out(endpoint):
        return {project: project in found for project in sorted({*found, own})}
    return dict.fromkeys(sorted(found), True)


def inventories(ledger: Ledger) -> Mapping[str, TpuNodeInventory | TpuQueuedInventory]:
    """Returns both, by kind."""
    return {NODE: TpuNodeInventory(ledger), QUEUED: TpuQueuedInventory(ledger)}
