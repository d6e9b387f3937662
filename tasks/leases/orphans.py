"""What carries a label of this ledger that no lease stands behind: it goes as well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tasks.leases.finding import Finding
from tasks.leases.inventory import Found, Inventories
from tasks.leases.lease import Lease, State
from tasks.leases.ledger import Listing
from tasks.leases.release import Patience, sweep
from tasks.leases.resource import ResourceRef


def reap_orphans(
    listing: Listing, labelled: Sequence[Found], inventories: Inventories, dry_run: bool, patience: Patience
) -> list[Finding]:
    """Deletes what is labelled with a lease of this ledger that is GONE or that the ledger does not know."""
    known: Mapping[str, Lease] = {lease.lease_id: lease for lease in listing.leases}
    orphans: dict[str, list[ResourceRef]] = {}
    for found in labelled:
        lease = known.get(found.lease_id)
        unread = any(f"/{found.lease_id}.json" in str(error) for error in listing.unreadable)
        if not unread and (lease is None or lease.state is State.GONE):
            orphans.setdefault(found.lease_id, []).append(found.ref)
    return [
        _reap_orphan(lease_id, known.get(lease_id), tuple(refs), inventories, dry_run, patience)
        for lease_id, refs in orphans.items()
    ]


def _reap_orphan(
    lease_id: str,
    lease: Lease | None,
    refs: tuple[ResourceRef, ...],
    inventories: Inventories,
    dry_run: bool,
    patience: Patience,
) -> Finding:
    why = (
        "labelled with a lease that is gone"
        if lease
        else "labelled with a lease that the ledger does not know"
    )
    if dry_run:
        return Finding(lease_id, "would release", why, refs)
    known = lease or Lease(lease_id, lease_id, None, 0, None, State.GONE, 0.0, None)
    swept = sweep(inventories, replace(known, resources=(*known.resources, *refs)), patience)
    if swept.left or swept.problems:
        return Finding(lease_id, "leaked", "; ".join((why, *swept.problems)), swept.left)
    return Finding(lease_id, "released", why, swept.deleted)
