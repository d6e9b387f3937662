"""The inventories of GKE: clusters and node pools, known by their labels, in all locations of the projects that the
ledger names. Those in ERROR or half made are there: they cost money or hold quota.

The scope of a cluster is "project/location", that of a node pool "project/location/cluster".
A pool in a cluster of its own lease goes with that; one in a cluster that was there before goes by itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from tasks.cloud.container import Container
from tasks.cloud.container_errors import Busy, NotFound
from tasks.cloud.container_model import Cluster, Pool
from tasks.cloud.container_transport import ENDPOINT_VARIABLE
from tasks.cloud.labels import Labelled, read_labels
from tasks.cloud.pool_sizes import pool_as_now
from tasks.cloud.timing import Timing
from tasks.leases.inventory import Found, Pace
from tasks.leases.lease import Lease
from tasks.leases.ledger import Ledger
from tasks.leases.resource import CLUSTER as CLUSTER
from tasks.leases.resource import POOL as POOL
from tasks.leases.resource import ResourceRef
from tasks.leases.tpus import in_projects, projects_of

OPERATION = "gke_operation"
"""What a lease waits for, written down as something that is not its own: whoever goes on with it waits as well."""

KINDS = (CLUSTER, POOL)

PACE = Pace(look_every_s=5.0, goes_within_s=3600.0, remote=True)
"""A cluster goes within minutes, but not before the operation that is under way on it has ended."""

_SETTLE_S = 20.0
"""A create call whose caller died or gave up may still take effect for so long."""

_TIMING = Timing(total_s=30.0)
"""Short: whoever releases looks again and again, and renews in between."""

Opened = Callable[[str], Container]


def opened(project: str) -> Container:
    """Returns the client that inventories look with: it never waits for another's operation."""
    return Container(project, timing=_TIMING, busy_s=0.0)


class _InGke(ABC):
    """What both share. `container` opens the client of a project."""

    kind: str
    depth: int
    after: frozenset[str] = frozenset()

    def __init__(
        self,
        ledger: Ledger,
        *,
        pace: Pace = PACE,
        settle_s: float = _SETTLE_S,
        container: Opened = opened,
    ) -> None:
        self.pace = pace
        self.settle_s = settle_s
        self._ledger = ledger
        self._container = container

    def sees(self, scope: str) -> bool:
        """See Inventory. Any project can be asked; what may not be asked shows as an error."""
        return scope.count("/") == self.depth

    def list(self, lease_id: str | None) -> Sequence[Found]:
        """See Inventory."""
        projects = projects_of(self._ledger, lease_id, (*KINDS, OPERATION), ENDPOINT_VARIABLE)
        return in_projects(self.kind, projects, lambda project: self._in_project(project, lease_id))

    @abstractmethod
    def _in_project(self, project: str, lease_id: str | None) -> Iterator[Found]:
        """Yields what there is of a project."""

    def _of_lease(self, labels: Mapping[str, str], lease_id: str | None) -> Labelled | None:
        """Returns what labels say, when they are this ledger's and a lease's that is asked for."""
        labelled = read_labels(labels)
        if labelled is None or labelled.ledger_id != self._ledger.id:
            return None
        return labelled if lease_id in (None, labelled.lease_id) else None

    def _same(self, ref: ResourceRef, there: Cluster | Pool) -> ResourceRef | None:
        """Returns the thing if it is the one. Without a uid its name and this ledger's label tell it."""
        if ref.uid is not None:
            return ref if ref.uid == there.uid else None
        return replace(ref, uid=there.uid) if self._of_lease(there.labels, None) else None


class ClusterInventory(_InGke):
    """Clusters, in whatever state. See Inventory."""

    kind = CLUSTER
    depth = 1

    def _in_project(self, project: str, lease_id: str | None) -> Iterator[Found]:
        for cluster in self._container(project).clusters():
            labelled = self._of_lease(cluster.labels, lease_id)
            if labelled:
                yield Found(labelled.lease_id, reference(cluster))

    def get(self, ref: ResourceRef) -> ResourceRef | None:
        """See Inventory."""
        project, _, location = ref.scope.partition("/")
        try:
            return self._same(ref, self._container(project).cluster(location, ref.name))
        except NotFound:
            return None

    def delete(self, ref: ResourceRef, *, force: bool) -> None:
        """See Inventory. What has our name but is another cluster by now is left alone."""
        if self.get(ref) is not None:
            project, _, location = ref.scope.partition("/")
            self._container(project).delete_cluster(location, ref.name)


class NodePoolInventory(_InGke):
    """Node pools that do not go with a cluster of their own lease. See Inventory."""

    kind = POOL
    depth = 2

    def _in_project(self, project: str, lease_id: str | None) -> Iterator[Found]:
        for cluster in self._container(project).clusters():
            whole = self._of_lease(cluster.labels, lease_id)
            for pool in cluster.pools:
                labelled = self._of_lease(pool.labels, lease_id)
                if labelled and not (whole and whole.lease_id == labelled.lease_id):
                    yield Found(labelled.lease_id, pool_reference(pool))

    def get(self, ref: ResourceRef) -> ResourceRef | None:
        """See Inventory."""
        project, location, cluster = ref.scope.split("/")
        try:
            return self._same(ref, self._container(project).pool(location, cluster, ref.name))
        except NotFound:
            return None

    def delete(self, ref: ResourceRef, *, force: bool) -> None:
        """See Inventory. What has our name but is another pool by now is left alone."""
        if self.get(ref) is not None:
            project, location, cluster = ref.scope.split("/")
            self._container(project).delete_pool(location, cluster, ref.name)

    def bring_to(self, ref: ResourceRef, size: int) -> bool:
        """See Resizable. The size is told in nodes for each zone."""
        project, location, cluster = ref.scope.split("/")
        container = self._container(project)
        try:
            if any(not one.done for one in container.operations(location, cluster)):
                return False
            there = pool_as_now(container.pool(location, cluster, ref.name), container.timing)
            if self._same(ref, there) is None or (there.size == size and there.state != "RECONCILING"):
                return True
            container.resize_pool(location, cluster, ref.name, size)
        except NotFound:
            return True
        except Busy:
            pass
        return False


def reference(cluster: Cluster) -> ResourceRef:
    """Returns a cluster as a lease knows it."""
    return ResourceRef(CLUSTER, f"{cluster.project}/{cluster.location}", cluster.name, cluster.uid)


def pool_reference(pool: Pool) -> ResourceRef:
    """Returns a node pool as a lease knows it."""
    return ResourceRef(POOL, f"{pool.project}/{pool.location}/{pool.cluster}", pool.name, pool.uid)


def is_unmarked(lease: Lease | None, there: Cluster) -> bool:
    """Whether a lease made a cluster that does not say so any more, for somebody took its labels away."""
    made = [ref for ref in lease.resources if ref.kind == CLUSTER and ref.ours] if lease else []
    return read_labels(there.labels) is None and any(ref.uid and ref.uid == there.uid for ref in made)


def lease_name(project: str, name: str) -> str:
    """Returns the name of the lease that a cluster is made under: one of each name in a project."""
    legal = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in project.lower())
    return f"cluster-{name}_{legal}"


def inventories(ledger: Ledger) -> Mapping[str, ClusterInventory | NodePoolInventory]:
    """Returns both, by kind."""
    return {CLUSTER: ClusterInventory(ledger), POOL: NodePoolInventory(ledger)}
