"""A size that somebody was changing who died or gave up: it is brought back, so that there is what the lease says."""

from __future__ import annotations

import time

from runtime.contract.errors import InfrastructureError
from tasks.leases.holding import Holding
from tasks.leases.inventory import Resizable
from tasks.leases.lease import Lease
from tasks.leases.patience import Patience
from tasks.leases.resource import ResourceRef


def bring_back(holding: Holding, patience: Patience) -> list[str]:
    """Brings what was being resized to the size that the lease says it has then; returns what was done, in words.

    Raises InfrastructureError when that takes too long: it stays written down for whoever comes next.
    """
    resized = _resized(holding.lease)
    for ref in resized:
        _bring_back(holding, ref, patience)
        holding.resize(ref, None)
    return [_told(ref) for ref in resized]


def would_bring_back(lease: Lease) -> list[str]:
    """Returns what `bring_back` would do, by the lease alone."""
    return [_told(ref) for ref in _resized(lease)]


def _bring_back(holding: Holding, ref: ResourceRef, patience: Patience) -> None:
    """Looks until it has its size, and again after as long as a call of a dead process may take to be heard."""
    inventory = holding.inventories[ref.kind]
    assert isinstance(inventory, Resizable)
    assert ref.resizing is not None
    pace = inventory.pace
    deadline = time.monotonic() + min(max(pace.goes_within_s, patience.deadline_s), patience.at_most_s)
    had_since: float | None = None
    while True:
        holding.check()
        now = time.monotonic()
        if not inventory.bring_to(ref, ref.resizing.back):
            had_since = None
        else:
            had_since = had_since or now
            if now - had_since >= inventory.settle_s:
                return
        if now >= deadline:
            size = f"{ref.kind} {ref.name} back to {ref.resizing.back} machines"
            raise InfrastructureError(f"cannot bring {size}: another operation is under way for too long")
        time.sleep(pace.look_every_s)


def _resized(lease: Lease) -> list[ResourceRef]:
    return [ref for ref in lease.resources if ref.ours and ref.resizing is not None and not ref.half]


def _told(ref: ResourceRef) -> str:
    assert ref.resizing is not None
    has = f"{ref.name} has {ref.resizing.back} machines"
    return (
        has
        if ref.resizing.back == ref.resizing.to
        else f"{has}, not the {ref.resizing.to} that were asked for"
    )
