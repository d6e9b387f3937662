"""Which clusters are looked into for things of a kind: those in which leases made some, for a day longer than these."""

from __future__ import annotations

import time
from collections.abc import Sequence

from tasks.leases.lease import Lease, State
from tasks.leases.ledger import Ledger

_LATE_S = 86400.0
"""So long after a lease is gone it is still looked for what came late. Then its cluster need not be there any more."""


def scopes_with(ledger: Ledger, kind: str, lease_id: str | None) -> Sequence[str]:
    """Returns where a lease made things of a kind; for one that is not known, wherever any did."""
    lease = ledger.read(lease_id) if lease_id else None
    leases = [lease] if lease else [one for one in ledger.listing().leases if _may_have_some(one)]
    return sorted({ref.scope for one in leases for ref in one.resources if ref.kind == kind})


def _may_have_some(lease: Lease) -> bool:
    return lease.state is not State.GONE or lease.renewed_at > time.time() - _LATE_S
