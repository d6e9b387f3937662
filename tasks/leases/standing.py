"""Capacity that outlives who works on it: when that one is gone, what is half made goes, and the rest is put back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from dataclasses import replace

from runtime.contract.errors import InfrastructureError, Leaked
from tasks.leases import owner as owners
from tasks.leases import steps
from tasks.leases.finding import Finding, Judgement
from tasks.leases.holding import TERM_S, Holding
from tasks.leases.inventory import Inventories
from tasks.leases.lease import Lease
from tasks.leases.ledger import Conflict, Ledger
from tasks.leases.patience import Patience
from tasks.leases.resizing import bring_back, would_bring_back
from tasks.leases.resource import SERVING, ResourceRef, outermost


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
            brought = bring_back(holding, patience)
        if holds_nothing(holding.lease):
            done = holding.release(verdict.why, patience)
            return Finding(lease.lease_id, "released", verdict.why, (*gone, *done.deleted))
        holding.detach(lease.stands_until, lease.note)
    except Conflict as error:
        return Finding(lease.lease_id, "elsewhere", f"another is at it: {error}")
    except Leaked as error:
        return Finding(lease.lease_id, "leaked", f"{verdict.why}; {error}")
    except InfrastructureError as error:
        return Finding(lease.lease_id, "failed", f"{verdict.why}; {error}", lease.resources)
    what = [f"{len(gone)} half made went"] if gone else []
    told = ", and ".join(("it is kept as before", *what, *brought))
    return Finding(lease.lease_id, "put back", f"{verdict.why}: {told}", tuple(gone))


def holds_nothing(lease: Lease) -> bool:
    """Whether all that was to stay is gone: what is left, if anything, is of use for that alone."""
    return all(ref.kind in SERVING for ref in lease.resources if ref.ours)


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
    if holds_nothing(replace(lease, resources=tuple(_staying(lease, gone)))):
        return Finding(lease.lease_id, "would release", verdict.why, lease.resources)
    what = [f"{len(half)} half made would go"] if half else []
    told = ", and ".join(("it would be kept as before", *what, *would_bring_back(lease)))
    return Finding(lease.lease_id, "would put back", f"{verdict.why}: {told}", tuple(half))


def _staying(lease: Lease, gone: Set[str]) -> Iterator[ResourceRef]:
    return (ref for ref in lease.resources if ref.key not in gone and ref.inside not in gone)


def _half_made(lease: Lease) -> list[ResourceRef]:
    return outermost([ref for ref in lease.resources if ref.ours and (ref.half or ref.uid is None)])
