"""The inventory of queues of Kueue that runs make for node pools of theirs in clusters of others, known by labels.

A queue is a ClusterQueue with its flavors, the LocalQueues that lead to it, and priority classes that were missing: it
is one thing, gone when all of them are. Kueue keeps a ClusterQueue and flavors for as long as a workload has quota of
them. It is gone with its cluster. Its scope is that of a JobSet; its uid is its name, for no other lease ever has one
of that name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from runtime.contract.errors import InfrastructureError
from tasks.cloud.kubernetes import Kubernetes
from tasks.cloud.kubernetes_errors import NotServed
from tasks.cloud.kubernetes_kinds import (
    ALL_NAMESPACES,
    CLUSTER_QUEUE,
    LOCAL_QUEUE,
    PRIORITY_CLASS,
    RESOURCE_FLAVOR,
    Kind,
    Object,
)
from tasks.cloud.kubernetes_places import ClusterGone, cluster_at, is_known_here
from tasks.cloud.labels import LEDGER, read_labels
from tasks.cloud.resource_names import name_of
from tasks.cloud.timing import Timing
from tasks.leases.cluster_scopes import scopes_with
from tasks.leases.inventory import Found, Pace, PartlyListed
from tasks.leases.lease import Lease
from tasks.leases.ledger import Ledger
from tasks.leases.resource import QUEUE as QUEUE
from tasks.leases.resource import ResourceRef

_PARTS = (LOCAL_QUEUE, CLUSTER_QUEUE, RESOURCE_FLAVOR, PRIORITY_CLASS)
_TIMING = Timing(total_s=30.0)


def queue_name(lease_id: str) -> str:
    """Returns the name of a lease's queue: of its ClusterQueue, and of the LocalQueues that lead to it."""
    return name_of(lease_id)


def queue_of(lease: Lease | None) -> ResourceRef | None:
    """Returns the queue that a lease has, whole and in use."""
    refs = lease.resources if lease is not None else ()
    return next((ref for ref in refs if ref.kind == QUEUE and ref.uid is not None), None)


class QueueInventory:
    """See Inventory."""

    kind = QUEUE
    pace = Pace(look_every_s=0.5, goes_within_s=120.0, remote=True)
    settle_s = 5.0
    after: frozenset[str] = frozenset()

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def sees(self, scope: str) -> bool:
        """See Inventory."""
        return is_known_here(scope)

    def list(self, lease_id: str | None) -> Sequence[Found]:
        """See Inventory. Looks wherever the lease made some; for a lease that is not known, wherever any did."""
        found: dict[str, Found] = {}
        silent: dict[str, InfrastructureError] = {}
        for scope in scopes_with(self._ledger, QUEUE, lease_id):
            try:
                whose = {
                    read_labels(labels) for _, _, labels in _parts(cluster_at(scope, _TIMING), self._ours())
                }
            except ClusterGone:
                continue
            except InfrastructureError as error:
                silent[scope.partition("/")[0]] = error
                continue
            for labelled in whose:
                if labelled is not None and lease_id in (None, labelled.lease_id):
                    name = queue_name(labelled.lease_id)
                    found[name] = Found(labelled.lease_id, ResourceRef(QUEUE, scope, name, name))
        if silent:
            raise PartlyListed(self.kind, list(found.values()), silent)
        return list(found.values())

    def get(self, ref: ResourceRef) -> ResourceRef | None:
        """See Inventory."""
        try:
            left = next(self._of(ref, cluster_at(ref.scope, _TIMING)), None)
        except ClusterGone:
            return None
        return replace(ref, uid=ref.name) if left is not None else None

    def delete(self, ref: ResourceRef, *, force: bool) -> None:
        """See Inventory."""
        try:
            cluster = cluster_at(ref.scope, _TIMING)
            for kind, one in list(self._of(ref, cluster)):
                there = one["metadata"]
                cluster.delete(kind, there["name"], there.get("namespace"), uid=str(there["uid"]))
        except ClusterGone:
            return

    def _of(self, ref: ResourceRef, cluster: Kubernetes) -> Iterator[tuple[Kind, Object]]:
        """Yields what there is of a queue, the way to it first."""
        for kind, one, labels in _parts(cluster, self._ours()):
            labelled = read_labels(labels)
            if labelled is not None and queue_name(labelled.lease_id) == ref.name:
                yield kind, one

    def _ours(self) -> Mapping[str, str]:
        return {LEDGER: self._ledger.id}


def _parts(
    cluster: Kubernetes, labels: Mapping[str, str]
) -> Iterator[tuple[Kind, Object, Mapping[str, str]]]:
    for kind in _PARTS:
        try:
            items = cluster.list(kind, ALL_NAMESPACES if kind.namespaced else None, labels=labels).items
        except NotServed:  # Kueue was taken away, and all that it had with it
            continue
        for one in items:
            yield kind, one, one["metadata"].get("labels") or {}
