"""Carries out what was judged: what of a lease can be given back from here is, and it is said what became of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from runtime.contract.errors import InfrastructureError
from tasks.leases import owner as owners
from tasks.leases.beyond import out_of_sight, vanished
from tasks.leases.finding import Did, Finding, Judgement
from tasks.leases.inventory import Inventories
from tasks.leases.lease import Lease, State
from tasks.leases.ledger import Conflict, Ledger
from tasks.leases.made import gone_with
from tasks.leases.patience import Patience
from tasks.leases.release import release
from tasks.leases.resource import outermost
from tasks.leases.standing import put_back, would_put_back


def carry_out(
    ledger: Ledger,
    lease: Lease,
    verdict: Judgement,
    inventories: Inventories,
    dry_run: bool,
    patience: Patience,
    now: Callable[[], float],
) -> Finding:
    """Does to a lease what was judged, as far as that can be done from here; says what came of it."""
    if verdict.act == "keep":
        return Finding(lease.lease_id, "kept", verdict.why, lease.resources)
    lost = vanished(inventories, lease)
    left = replace(lease, resources=tuple(ref for ref in lease.resources if ref not in lost))
    unseen = out_of_sight(inventories, left)
    if unseen and not lost and len(unseen) == sum(ref.ours for ref in outermost(lease.resources)):
        where = ", ".join(sorted({f"{ref.kind} in {ref.scope}" for ref in unseen}))
        did: Did = "leaked" if lease.state is State.LEAKED else "not reachable"
        return Finding(lease.lease_id, did, f"{verdict.why}; run `slicebench reap` where {where} can be seen")
    if dry_run and verdict.act == "put back":
        return would_put_back(lease, verdict)
    if dry_run:
        return Finding(lease.lease_id, "would release", verdict.why, lease.resources)
    if verdict.act == "put back":
        return put_back(ledger, lease, verdict, inventories, patience, now)
    try:
        done = release(
            ledger,
            lease,
            inventories,
            owners.this_process(),
            verdict.why,
            beyond=unseen,
            patience=patience,
            now=now,
        )
    except Conflict as error:
        return Finding(lease.lease_id, "elsewhere", f"another is at it: {error}")
    except InfrastructureError as error:
        return Finding(lease.lease_id, "failed", f"{verdict.why}; {error}", lease.resources)
    also = f"; {done.death}" if done.death else ""
    went = tuple(gone_with(lease, done.deleted))
    if done.lease.state is State.GONE:
        return Finding(lease.lease_id, "released", verdict.why + also, went)
    if done.lease.state is State.RELEASING:
        return Finding(lease.lease_id, "released in part", done.lease.note + also, went)
    return Finding(lease.lease_id, "leaked", done.lease.note + also, done.left)
