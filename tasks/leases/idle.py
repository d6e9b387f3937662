"""A workload that was left to itself and has ended holds up what was made for it: that goes before its time is over."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from runtime.contract.errors import InfrastructureError
from tasks.leases.finding import Judgement
from tasks.leases.inventory import Inventories
from tasks.leases.lease import Lease, State
from tasks.leases.resource import ResourceRef


@runtime_checkable
class Watched(Protocol):
    """An inventory of things that end by themselves, and stay to be looked at."""

    def has_ended(self, ref: ResourceRef) -> bool:
        """Whether it has ended, or is gone. Raises InfrastructureError where nobody can say."""


def unless_idle(lease: Lease, verdict: Judgement, inventories: Inventories) -> Judgement:
    """Returns the judgement, or that a lease is to be released whose workload has ended and that has more than that.

    A workload that has ended holds nothing by itself, and is kept to be looked at; a cluster costs money.
    """
    left = lease.owner is None and lease.stands and lease.state is State.LIVE
    if verdict.act != "keep" or not left:
        return verdict
    ours = [ref for ref in lease.resources if ref.ours]
    watched: list[tuple[Watched, ResourceRef]] = []
    for ref in ours:
        inventory = inventories.get(ref.kind)
        if isinstance(inventory, Watched):
            watched.append((inventory, ref))
    if not watched or len(watched) == len(ours):
        return verdict
    try:
        over = all(each.has_ended(ref) for each, ref in watched)
    except InfrastructureError:
        return verdict
    return Judgement("release", "its workload has ended, and nobody came back for it") if over else verdict
