"""Capacity that outlives who works on it: when that one is gone, what is half made goes, and the rest is put back."""

from __future__ import annotations

from collections.abc import Callable

from runtime.contract.errors import InfrastructureError, Leaked
from tasks.leases import owner as owners
from tasks.leases import steps
from tasks.leases.finding import Finding, Judgement
from tasks.leases.holding import TERM_S, Holding
from tasks.leases.inventory import Inventories
from tasks.leases.lease import Lease
from tasks.leases.ledger import Conflict, Ledger
from tasks.leases.patience import Patience
from tasks.leases.resource import ResourceRef, outermost


def put_back(
    ledger: Ledger,
    lease: Lease,
    verdict: Judgement,
    inventories: Inventories,
    patience: Patience,
    now: Callable[[], float],
) -> Finding:
    """Gives back what the lease was about to make when its owner died, and keeps it as it was kept before."""
    try:
        taken = steps.take(lease, owners.this_process(), now(), now() + TERM_S)
        holding = Holding(ledger, ledger.write(taken), inventories, now=now)
        with holding.renewing():
            gone = give_back_half_made(holding, patience)
        if not any(ref.ours for ref in holding.lease.resources):
            done = holding.release(verdict.why, patience)
            return Finding(lease.lease_id, "released", verdict.why, (*gone, *done.deleted))
        holding.detach(lease.stands_until, lease.note)
    except Conflict as error:
        return Finding(lease.lease_id, "elsewhere", f"another is at it: {error}")
    except Leaked as error:
        return Finding(lease.lease_id, "leaked", f"{verdict.why}; {error}")
    except InfrastructureError as error:
        return Finding(lease.lease_id, "failed", f"{verdict.why}; {error}", lease.resources)
    what = f", and {len(gone)} half made went" if gone else ""
    return Finding(lease.lease_id, "put back", f"{verdict.why}: it is kept as before{what}", tuple(gone))


def give_back_half_made(holding: Holding, patience: Patience) -> list[ResourceRef]:
    """Deletes what the lease was about to make, or had not finished making or giving back; returns what that was.

    Raises Leaked when it cannot be proven gone: it stays in the lease.
    """
    half = _half_made(holding.lease)
    for ref in half:
        holding.discard(ref, patience)
    return half


def would_put_back(lease: Lease, verdict: Judgement) -> Finding:
    """Returns what `put_back` would do, by the lease alone."""
    half = _half_made(lease)
    gone = {ref.key for ref in half}
    if all(ref.key in gone or ref.inside in gone for ref in lease.resources if ref.ours):
        return Finding(lease.lease_id, "would release", verdict.why, lease.resources)
    what = f", and {len(half)} half made would go" if half else ""
    return Finding(
        lease.lease_id, "would put back", f"{verdict.why}: it would be kept as before{what}", tuple(half)
    )


def _half_made(lease: Lease) -> list[ResourceRef]:
    return outermost([ref for ref in lease.resources if ref.ours and (ref.half or ref.uid is None)])
