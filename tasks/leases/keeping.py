"""Hardware that stays after its run: kept for a time under a lease without an owner, used again, given up."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from runtime.contract.errors import BadInput
from tasks.cloud.prices import load_prices
from tasks.leases import owner as owners
from tasks.leases import steps
from tasks.leases.claim import claim
from tasks.leases.holding import TERM_S, Holding, Taken
from tasks.leases.inventory import Inventories
from tasks.leases.lease import Lease, State
from tasks.leases.ledger import Conflict, Ledger, latest
from tasks.leases.patience import USUAL, Patience
from tasks.leases.release import sweep
from tasks.leases.resource import JOBSET, ResourceRef


def keep(
    holding: Holding, kinds: Collection[str], until: float, patience: Patience = USUAL
) -> tuple[ResourceRef, ...]:
    """Lets what was made of these kinds stay until `until` (seconds since the epoch); everything else goes.

    Returns what stays. When that is nothing, because the hardware never was complete or because something
    else would not go, the lease stays with the caller, who releases it. Raises Fenced when it was lost.
    """
    holding.check()
    lease = holding.lease
    staying = tuple(ref for ref in lease.resources if ref.ours and ref.kind in kinds)
    if lease.state is not State.LIVE or not staying or lease.unconfirmed:
        return ()
    going = tuple(ref for ref in lease.resources if ref not in staying)
    others = {kind: inventory for kind, inventory in holding.inventories.items() if kind not in kinds}
    swept = sweep(others, replace(lease, resources=going), patience)
    if not swept.proven:
        return ()
    for ref in going:
        if ref.ours:
            holding.forget(ref)
    holding.detach(until)
    return staying


def claim_kept(
    ledger: Ledger,
    inventories: Inventories,
    name: str,
    run_id: str,
    shape: Mapping[str, str],
    *,
    folder: str = "",
    now: Callable[[], float] = time.time,
    term_s: float = TERM_S,
    say: Callable[[str], None] = lambda line: None,
) -> Holding:
    """Takes a kept lease for another run, which gives it back at its end like one of its own.

    A run that is tried again gets the lease that it had. Raises BadInput with every reason why the lease
    cannot serve, Taken when somebody else took it.
    """
    last = latest(ledger, name)
    if last is not None and last.run_id == run_id:
        return claim(ledger, inventories, name, run_id, folder=folder, now=now, term_s=term_s, say=say)
    at = now()
    if last is None:
        raise BadInput(f"there is no lease {name} in {ledger.uri}", fix="see slicebench leases")
    if reasons := _why_not(last, shape, at):
        raise BadInput(
            f"lease {name} cannot be used again: {'; '.join(reasons)}",
            fix="leave out --lease, or see slicebench leases for another one",
        )
    taken = steps.take(last, owners.this_process(), at, at + term_s)
    try:
        stored = ledger.write(steps.serve(taken, run_id, folder))
    except Conflict as error:
        raise Taken(f"{name} was taken by another process at this very moment: {error}") from error
    return Holding(ledger, stored, inventories, now=now, term_s=term_s)


def in_dollars(price_per_hour: float | None) -> str:
    """Returns a price for people; one that nobody knows is not called free."""
    if price_per_hour is None:
        return "price not known"
    return f"${price_per_hour:.2f} an hour" if price_per_hour else "nothing beyond what is there already"


def by_list_prices(price_per_hour: float | None) -> str:
    """Returns a price for people with the date of the table that it was just taken from."""
    told = in_dollars(price_per_hour)
    return f"{told} by list prices of {load_prices().as_of}" if price_per_hour else told


def _why_not(lease: Lease, shape: Mapping[str, str], now: float) -> list[str]:
    """Returns why a lease cannot be used by a run that wants hardware of this shape."""
    if lease.state is State.GONE:
        return ["it was given back"]
    if lease.state is not State.LIVE:
        return [f"it is {lease.state}" + (f": {lease.note}" if lease.note else "")]
    if lease.owner is not None:
        return [f"it is held by {lease.owner} for run {lease.run_id}, and not kept"]
    if any(ref.kind == JOBSET for ref in lease.resources):
        return ["a workload was left to itself under it"]
    if lease.holders:
        return [f"it is used by {', '.join(lease.holders)}"]
    reasons = []
    if lease.expires_at is not None and lease.expires_at <= now:
        reasons.append(f"its time was over {now - lease.expires_at:.0f} s ago")
    for name in sorted(lease.shape.keys() | shape.keys()):
        there, wanted = lease.shape.get(name, "none"), shape.get(name, "none")
        if there != wanted:
            reasons.append(f"{name} is {there} there, and the run wants {wanted}")
    return reasons
