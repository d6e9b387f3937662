"""What carries a label of this ledger that no lease stands behind: it goes as well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tasks.leases.finding import Finding
from tasks.leases.inventory import Found, Inventories
from tasks.leases.lease import Lease, State
from tasks.leases.ledger import Listing
from tasks.leases.patience import Patience
from tasks.leases.release import sweep
from tasks.leases.resource import ResourceRef


@dataclass(frozen=True)
class Orphan:
    """What bears the label of a lease that is GONE, or (`lease` None) that the ledger does not know."""

    lease_id: str
    lease: Lease | None
    refs: tuple[ResourceRef, ...]


def find_orphans(listing: Listing, labelled: Sequence[Found]) -> Sequence[Orphan]:
    """Returns what of all that is labelled has no lease, lease by lease."""
    known: Mapping[str, Lease] = {lease.lease_id: lease for lease in listing.leases}
    unread = {error.lease_id for error in listing.unreadable}
    orphans: dict[str, Orphan] = {}
    for found in labelled:
        lease = known.get(found.lease_id)
        if found.lease_id not in unread and (lease is None or lease.state is State.GONE):
            one = orphans.get(found.lease_id) or Orphan(found.lease_id, lease, ())
            orphans[found.lease_id] = replace(one, refs=(*one.refs, found.ref))
    return list(orphans.values())


def reap_orphan(orphan: Orphan, inventories: Inventories, dry_run: bool, patience: Patience) -> Finding:
    """Deletes what no lease stands behind, and looks that it is gone."""
    lease_id, lease = orphan.lease_id, orphan.lease
    why = (
        "labelled with a lease that is gone"
        if lease
        else "labelled with a lease that the ledger does not know"
    )
    if dry_run:
        return Finding(lease_id, "would release", why, orphan.refs)
    known = lease or Lease(lease_id, lease_id, None, 0, None, State.GONE, 0.0, None)
    swept = sweep(inventories, replace(known, resources=(*known.resources, *orphan.refs)), patience)
    if not swept.proven:
        return Finding(lease_id, "leaked", "; ".join((why, *swept.problems)), swept.left)
    return Finding(lease_id, "released", why, swept.deleted)
