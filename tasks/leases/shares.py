"""Shares: a lease that uses what another one made, so that this stays for as long as it is used.

For the lease that holds it, a share is one more thing made under it: written down first, given back with the rest.
It is given back first: a run that is being released waits for nothing that it could keep from going.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from runtime.contract.errors import InfrastructureError
from tasks.cloud.labels import read_labels
from tasks.leases import owner as owners
from tasks.leases import steps
from tasks.leases.holding import Holding
from tasks.leases.inventory import HERE, Found, Inventories
from tasks.leases.lease import HELD, Lease, State
from tasks.leases.ledger import Conflict, Ledger
from tasks.leases.patience import USUAL, Patience
from tasks.leases.release import Release, release
from tasks.leases.resource import ResourceRef

KIND = "share"
_SCOPE = "ledger"
_TRIES = 10


def share(holding: Holding, labels: Mapping[str, str]) -> ResourceRef | None:
    """Joins the lease of this ledger that something was made under, by its labels; returns None when none did.

    Raises InfrastructureError when that lease is gone or being released: then so is the thing.
    """
    labelled = read_labels(labels)
    if labelled is None or labelled.ledger_id != holding.ledger.id:
        return None
    shared = labelled.lease_id
    if shared == holding.lease.lease_id:
        return None
    uid = _uid(holding.lease.lease_id, shared)
    return holding.create(KIND, _SCOPE, shared, lambda: _join(holding, shared, uid))


def users(ledger: Ledger, lease: Lease) -> Sequence[str]:
    """Returns who shares a lease and is not gone."""
    held = {holder: ledger.read(holder) for holder in lease.holders}
    return [holder for holder, one in held.items() if one is not None and one.state is not State.GONE]


def shared_by(lease: Lease) -> Sequence[str]:
    """Returns the ids of the leases that a lease shares."""
    return [ref.name for ref in lease.resources if ref.kind == KIND and ref.ours]


def last_out(
    ledger: Ledger, inventories: Inventories, shared: str, patience: Patience = USUAL
) -> Release | None:
    """Gives back what was made for runs, when nobody shares it any more; None: somebody does, or it is kept.

    To be called once a sharer's own lease is given back; whoever is killed before leaves it to the reaper.
    """
    lease = ledger.read(shared)
    if lease is None or lease.run_id is None or lease.stands or lease.owner is not None:
        return None
    kept = lease.expires_at is not None and lease.expires_at > time.time()
    if lease.state is State.GONE or users(ledger, lease) or (kept and lease.state in HELD):
        return None
    why = "the last run that used it is over"
    for holder in lease.holders:  # gone, and not struck off yet
        lease = steps.leave(lease, holder)
    try:
        return release(ledger, lease, inventories, owners.this_process(), why, patience=patience)
    except Conflict:  # the reaper, or another run, was faster
        return None


def keep_shared(
    ledger: Ledger, shared: str, until: float, shape: Mapping[str, str], price_per_hour: float | None
) -> Lease | None:
    """Lets what was made for runs stay until `until`, whoever shares it; None: it is not whole, or stays anyhow.

    To be called by who still holds it. What somebody keeps for longer stays for longer.
    """
    for _ in range(_TRIES):
        lease = ledger.read(shared)
        if lease is None or lease.state is not State.LIVE or lease.owner is not None:
            return None
        if lease.run_id is None or lease.stands:
            return None
        try:
            return ledger.write(steps.stay(steps.describe(lease, shape, price_per_hour), until))
        except Conflict:
            continue
    raise InfrastructureError(f"lease {shared} keeps changing")


class ShareInventory:
    """Shares, as things that a lease has. See Inventory."""

    kind = KIND
    pace = HERE
    settle_s = 0.0
    after: frozenset[str] = frozenset()

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def sees(self, scope: str) -> bool:
        """See Inventory. Shares are in the ledger, whatever they are of."""
        return True

    def list(self, lease_id: str | None) -> Sequence[Found]:
        """See Inventory. A share is found by what its holder wrote down; of holders that are gone, by the reaper."""
        lease = self._ledger.read(lease_id) if lease_id else None
        if lease is None:
            return []
        refs = [
            replace(ref, uid=_uid(lease.lease_id, ref.name)) for ref in lease.resources if ref.kind == KIND
        ]
        return [Found(lease.lease_id, there) for ref in refs if (there := self.get(ref))]

    def get(self, ref: ResourceRef) -> ResourceRef | None:
        """See Inventory."""
        shared = self._ledger.read(ref.name)
        return ref if shared is not None and _holder_of(ref) in shared.holders else None

    def delete(self, ref: ResourceRef, *, force: bool) -> None:
        """See Inventory."""
        for _ in range(_TRIES):
            shared = self._ledger.read(ref.name)
            if shared is None or _holder_of(ref) not in shared.holders:
                return
            try:
                self._ledger.write(steps.leave(shared, _holder_of(ref)))
            except Conflict:
                continue
            return
        raise InfrastructureError(f"lease {ref.name} keeps changing")


def _join(holding: Holding, shared: str, uid: str) -> str:
    for _ in range(_TRIES):
        lease = holding.ledger.read(shared)
        if lease is None:
            raise InfrastructureError(
                f"what is to be used was made under lease {shared}, which the ledger {holding.ledger.uri} does not "
                "know: the next reaper deletes it; use another"
            )
        try:
            holding.ledger.write(steps.join(lease, holding.lease.lease_id))
        except Conflict:
            continue
        return uid
    raise InfrastructureError(f"lease {shared} keeps changing")


def _uid(holder: str, shared: str) -> str:
    return f"{holder} {shared}"


def _holder_of(ref: ResourceRef) -> str:
    return (ref.uid or "").partition(" ")[0]
