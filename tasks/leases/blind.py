"""Where a machine that is not logged in to Google cannot look: that is told once, and nothing there is tried."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from runtime.contract.errors import InfrastructureError
from tasks.cloud.google_login import NoLogin
from tasks.leases.finding import Finding
from tasks.leases.inventory import Found, Inventories, Inventory, PartlyListed
from tasks.leases.lease import Lease
from tasks.leases.resource import ResourceRef, outermost


class _Blind:
    """An inventory that does not see some places. See Inventory."""

    def __init__(self, inventory: Inventory, places: Collection[str]) -> None:
        self._inventory, self._places = inventory, places
        self.kind, self.pace = inventory.kind, inventory.pace
        self.settle_s, self.after = inventory.settle_s, inventory.after

    def sees(self, scope: str) -> bool:
        return scope.partition("/")[0] not in self._places and self._inventory.sees(scope)

    def list(self, lease_id: str | None) -> Sequence[Found]:
        return self._inventory.list(lease_id)

    def get(self, ref: ResourceRef) -> ResourceRef | None:
        return self._inventory.get(ref)

    def delete(self, ref: ResourceRef, *, force: bool) -> None:
        self._inventory.delete(ref, force=force)


def without(inventories: Inventories, unseen: Mapping[str, Collection[str]]) -> Inventories:
    """Returns inventories that do not see these places; `unseen` has them by kind."""
    return {
        kind: _Blind(inventory, unseen[kind]) if kind in unseen else inventory
        for kind, inventory in inventories.items()
    }


def places_without_login(error: InfrastructureError) -> Collection[str]:
    """Returns where a listing failed for want of a login."""
    if not isinstance(error, PartlyListed):
        return ()
    return [place for place, why in error.errors.items() if isinstance(why, NoLogin)]


def not_logged_in(unseen: Mapping[str, Collection[str]], why: str) -> Finding:
    """Returns what is said of all that could not be listed for want of a login."""
    places = ", ".join(sorted({place for those in unseen.values() for place in those}))
    return Finding(
        "Google Cloud",
        "not listed",
        f"{why}: nobody knows what {', '.join(sorted(unseen))} there are in {places}",
    )


def refuse_without_login(inventories: Inventories, lease: Lease) -> None:
    """Raises InfrastructureError for want of a login that anything of a lease needs to be looked at."""
    for ref in outermost(lease.resources):
        inventory = inventories.get(ref.kind)
        if inventory is None or not ref.ours or not inventory.pace.remote:
            continue
        try:
            inventory.get(ref)
        except NoLogin:
            raise
        except InfrastructureError:
            continue
