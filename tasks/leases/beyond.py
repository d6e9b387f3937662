"""What cannot be looked at: because it is out of sight from here, or because what it was on is there no more."""

from __future__ import annotations

from collections.abc import Sequence

from runtime.contract.errors import InfrastructureError
from tasks.leases.inventory import Inventories
from tasks.leases.lease import Lease
from tasks.leases.resource import ResourceRef, outermost


def out_of_sight(inventories: Inventories, lease: Lease) -> Sequence[ResourceRef]:
    """Returns what the lease made that cannot be looked at from here, and what has to stay for as long as that is.

    A key in a cloud is seen from anywhere; but who takes it away before what lies behind it locks everybody out.
    A lock in the ledger opens nothing, and may go.
    """
    mine = [ref for ref in outermost(lease.resources) if ref.ours]
    beyond = [ref for ref in mine if not _sees(inventories, ref)]
    while more := [
        ref
        for ref in mine
        if ref not in beyond and any(waits_for(ref, other, inventories) for other in beyond)
    ]:
        beyond += more
    return beyond


def waits_for(ref: ResourceRef, unseen: ResourceRef, inventories: Inventories) -> bool:
    """Says whether a thing has to stay for as long as another cannot be looked at.

    That is what comes after it at the same place, as the folder that a process may still write to; and the key to a
    machine that was there before, for what is inside. A host that is silent holds up no folder of another host.
    """
    inventory = inventories[ref.kind]
    behind_it = bool(unseen.inside) and not ref.inside
    return (
        inventory.pace.remote and unseen.kind in inventory.after and (unseen.scope == ref.scope or behind_it)
    )


def vanished(inventories: Inventories, lease: Lease) -> Sequence[ResourceRef]:
    """Returns what was made inside things that were there before and are gone by now: it went with them.

    Nobody can look into a machine that its owner deleted. A cloud that does not answer says nothing.
    """
    gone: list[ResourceRef] = []
    for container in lease.resources:
        inner = [ref for ref in lease.resources if ref.ours and ref.inside == container.key]
        known = inner and not container.ours and container.uid is not None
        if known and is_there(inventories, container) is False:
            gone += inner
    return gone


def is_there(inventories: Inventories, ref: ResourceRef) -> bool | None:
    """Says whether a thing is there; None where nobody can look, or nobody answers."""
    if not _sees(inventories, ref):
        return None
    try:
        return inventories[ref.kind].get(ref) is not None
    except InfrastructureError:
        return None


def _sees(inventories: Inventories, ref: ResourceRef) -> bool:
    inventory = inventories.get(ref.kind)
    return inventory is not None and inventory.sees(ref.scope)
