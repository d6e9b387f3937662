"""What is there now of leases that live by nobody's process: asked of their clusters, all at once, and not for long.

A lease says what was made, and until when it may stay. Whether a workload that goes on by itself has ended by now, or
somebody deleted a cluster that was kept, only the cluster knows; who does not answer soon is told as not known.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from runtime.contract.errors import InfrastructureError
from tasks.cloud.kubernetes_places import ClusterGone
from tasks.leases.inventory import Found
from tasks.leases.jobsets import JobSetInventory
from tasks.leases.lease import HELD, Lease
from tasks.leases.ledger import Ledger
from tasks.leases.resource import CLUSTER, JOBSET, ResourceRef

DELETED = "its cluster is deleted"

WITHIN_S = 3.0
"""Longer than a cluster on another continent needs for the three calls that are made of it."""


@dataclass(frozen=True)
class Present:
    """What is there of a lease. `told` is for people. `stays_until`: when a workload that has ended is taken away."""

    state: Literal["there", "ended", "gone", "unknown"]
    told: str = ""
    stays_until: float | None = None


Asked = Callable[[Lease], Present]


def presently(
    ledger: Ledger,
    leases: Iterable[Lease],
    *,
    within_s: float = WITHIN_S,
    workloads: JobSetInventory | None = None,
    get_cluster: Callable[[ResourceRef], ResourceRef | None] | None = None,
) -> Mapping[str, Present]:
    """Returns what is there, by lease, of those that live by nobody's process and made a JobSet or a cluster."""
    by_place: dict[str, list[Lease]] = {}
    for lease in leases:
        if lease.owner is None and lease.state in HELD and not lease.holders and (ref := _asked_about(lease)):
            by_place.setdefault(f"{ref.kind} {ref.scope}", []).append(lease)
    if not by_place:
        return {}
    jobsets = workloads or JobSetInventory(ledger)
    found: dict[str, Present] = {}

    def look(those: Sequence[Lease]) -> None:
        ref = _asked_about(those[0])
        assert ref is not None
        ask = (
            _workloads(jobsets, ref.scope) if ref.kind == JOBSET else _cluster(get_cluster or _getter(ledger))
        )
        for lease in those:
            try:
                found[lease.lease_id] = ask(lease)
            except ClusterGone:
                found[lease.lease_id] = Present("gone", DELETED)
            except InfrastructureError as error:
                found[lease.lease_id] = Present("unknown", str(error))

    threads = [
        threading.Thread(target=look, args=(those,), daemon=True, name=place)
        for place, those in by_place.items()
    ]
    for thread in threads:
        thread.start()
    until = time.monotonic() + within_s
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    silent = f"no answer within {within_s:g} s"
    return {
        lease.lease_id: found.get(lease.lease_id, Present("unknown", silent))
        for those in by_place.values()
        for lease in those
    }


def _asked_about(lease: Lease) -> ResourceRef | None:
    """Returns what a lease is about: its workload, else the cluster that it keeps."""
    for kind in (JOBSET, CLUSTER):
        for ref in lease.resources:
            if ref.kind == kind and ref.ours:
                return ref
    return None


def _workloads(inventory: JobSetInventory, scope: str) -> Asked:
    """Returns what tells about workloads of a scope; its cluster is asked once for all of them."""
    listed: list[Sequence[Found]] = []

    def ask(lease: Lease) -> Present:
        if not listed:
            listed.append(inventory.labelled_in(scope))
        mine = [one for one in listed[0] if one.lease_id == lease.lease_id]
        if not mine:
            gone = all(inventory.get(ref) is None for ref in lease.resources if ref.kind == JOBSET)
            return Present("gone", "its cluster has no such workload any more") if gone else Present("there")
        ends = [one.stays_until for one in mine if one.stays_until is not None]
        return Present("ended", "it has ended", max(ends)) if len(ends) == len(mine) else Present("there")

    return ask


def _cluster(get: Callable[[ResourceRef], ResourceRef | None]) -> Asked:
    def ask(lease: Lease) -> Present:
        ref = _asked_about(lease)
        assert ref is not None
        return Present("there") if get(ref) is not None else Present("gone", DELETED)

    return ask


def _getter(ledger: Ledger) -> Callable[[ResourceRef], ResourceRef | None]:
    from tasks.leases.clusters import ClusterInventory

    return ClusterInventory(ledger).get
