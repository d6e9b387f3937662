"""Leases that have been over for weeks are taken out of the ledger: each reaper reads all that are in it."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace

from tasks.leases.lease import Lease, State, lease_id
from tasks.leases.ledger import Conflict, Ledger, Listing

KEPT_S = 28 * 86400.0
"""How long a lease that is GONE can still be read, seconds."""

_AT_MOST = 200
"""So many names are taken out by one reaper: it has more urgent things to do."""


def prune(ledger: Ledger, listing: Listing, now: float) -> None:
    """Takes out every name of which all epochs are GONE, the last for longer than `KEPT_S`.

    Epochs count on, so a name goes as a whole. Nothing goes while a file cannot be read: it may be of such a name.
    """
    names: dict[str, list[Lease]] = {}
    for lease in listing.leases:
        names.setdefault(lease.name, []).append(lease)
    over = [
        epochs
        for epochs in names.values()
        if all(one.state is State.GONE and now - one.renewed_at > KEPT_S for one in epochs)
    ]
    for epochs in over[:_AT_MOST] if not listing.unreadable else ():
        # Another reaper, or a run that begins the next epoch at this very moment, may be faster.
        with contextlib.suppress(Conflict):
            _take_out(ledger, sorted(epochs, key=lambda one: one.epoch))


def _take_out(ledger: Ledger, epochs: Sequence[Lease]) -> None:
    for lease in reversed(epochs):
        ledger.remove(lease)
    last = epochs[-1]
    if ledger.read(lease_id(last.name, last.epoch + 1)) is not None:
        # The next epoch began meanwhile, and is found by way of those before it.
        for lease in epochs:
            ledger.write(replace(lease, generation=0))
