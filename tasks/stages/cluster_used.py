"""What goes on in a cluster that is about to be deleted: as the cluster says, else as the ledger knows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tasks.cloud.kubernetes_places import on_gke
from tasks.leases.clusters import CLUSTER, POOL, lease_name
from tasks.leases.lease import HELD, Lease, State
from tasks.leases.ledger import latest
from tasks.leases.resource import JOBSET, ResourceRef
from tasks.leases.shares import users
from tasks.stages.cluster_standing import Office
from tasks.targets.cluster_find import find


def goes_on_in(office: Office, name: str) -> Sequence[str]:
    """Returns in words what would be lost with what slicebench made for a cluster; empty: nothing, as far as is known.

    Of a cluster that was there before only its added node pools would go. Runs that share it are not among these: they
    keep it from being deleted.
    """
    lease = latest(office.ledger, lease_name(office.container.project, name))
    if lease is None or lease.state is State.GONE or users(office.ledger, lease):
        return ()
    ref = next((ref for ref in lease.resources if (ref.kind, ref.name) == (CLUSTER, name)), None)
    there = find(office.container, name, ref.scope.partition("/")[2]) if ref else None
    if ref is None or there is None:
        return ()
    if not ref.ours:
        mine = {one.name for one in lease.resources if one.kind == POOL and one.ours}
        busy = office.inside.busy(there) if office.inside and there.endpoint else {}
        return [f"something on node pool {pool}" for pool in sorted(mine) if busy.get(pool)]
    seen = office.inside.going_on(there) if office.inside and there.endpoint else None
    return seen if seen is not None else list(_by_leases(office.ledger.listing().leases, ref))


def _by_leases(leases: Sequence[Lease], cluster: ResourceRef) -> Iterator[str]:
    """Yields what leases made in a cluster that they knew by its name. Some of it may have ended."""
    project, _, location = cluster.scope.partition("/")
    for lease in leases:
        for ref in lease.resources if lease.state in HELD else ():
            place = on_gke(ref.scope) if ref.kind == JOBSET and ref.ours else None
            if place and (place["project"], place["location"], place["name"]) == (
                project,
                location,
                cluster.name,
            ):
                yield f"{place['namespace']}/{ref.name} (lease {lease.lease_id})"
