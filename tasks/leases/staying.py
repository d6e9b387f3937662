"""What stands when a run is over, though the run itself gave all of its own back: the cluster that runs share."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from tasks.cloud.kubernetes_places import on_gke
from tasks.config.commands import resume
from tasks.leases.clusters import lease_name
from tasks.leases.judging import judge_from_here
from tasks.leases.keeping import in_dollars
from tasks.leases.lease import Lease, State
from tasks.leases.ledger import Ledger, latest
from tasks.leases.made import made_under, told
from tasks.leases.resource import JOBSET, ResourceRef


def beside(ledger: Ledger, planned: Iterable[ResourceRef]) -> Sequence[Lease]:
    """Returns the leases, not given back, of the clusters that a run is for: it made them, joined them, or neither."""
    places = [on_gke(ref.scope) for ref in planned if ref.kind == JOBSET]
    names = {lease_name(place["project"], place["name"]) for place in places if place}
    found = [latest(ledger, name) for name in sorted(names)]
    return [one for one in found if one is not None and one.state is not State.GONE and made_under(one)]


def of_run(ledger: Ledger, run_id: str, own: str | None) -> Sequence[Lease]:
    """Returns what stands under other leases that a run took, besides its `own`."""
    leases = ledger.listing().leases if ledger.exists() else ()
    mine = [one for one in leases if one.run_id == run_id and one.lease_id != own]
    return [one for one in mine if one.state is not State.GONE and made_under(one)]


def what_stands(lease: Lease, price_per_hour: float | None = None, but: str = "") -> str:
    """Says what stands under a lease, what it costs and what becomes of it; `but`: the run that says so.

    `price_per_hour`: in US dollars, where the lease does not know it.
    """
    price = lease.price_per_hour if lease.price_per_hour is not None else price_per_hour
    return f"still there: {told(made_under(lease))}, {in_dollars(price)}: {_becomes(lease, but)}"


def _becomes(lease: Lease, but: str) -> str:
    if lease.holders:
        return f"used by {', '.join(lease.holders)}, and given back with the last of them"
    verdict = judge_from_here(lease, time.time())
    if lease.owner is None and verdict.act == "keep":
        return f"{verdict.why}; slicebench reap --lease {lease.name} gives it back now"
    if verdict.act == "keep":
        return f"run {lease.run_id} works on it: {verdict.why}" if lease.run_id != but else verdict.why
    go_on = f", {resume(lease.folder)} goes on with it" if lease.folder and lease.run_id else ""
    return f"{verdict.why}; slicebench reap gives it back{go_on}"
