"""What carries our labels, of all kinds at once, for the reaper: who does not answer holds up nobody else, and in a dry
run not for long. What did not answer just now is not asked once more to judge a lease.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from runtime.contract.errors import InfrastructureError
from tasks.cloud.waits import waiting
from tasks.leases.blind import not_logged_in, places_without_login
from tasks.leases.finding import Finding
from tasks.leases.idle import Watched
from tasks.leases.inventory import Found, Inventories, Inventory, PartlyListed
from tasks.leases.lease import HELD, Lease
from tasks.leases.ledger import Ledger
from tasks.leases.resource import ResourceRef

_FEW = 3


@dataclass(frozen=True)
class Looked:
    """What is there and carries our labels; what is to be said; by kind, the places where nobody can look from here for
    want of a login, and those that did not answer (None: none of that kind did).
    """

    labelled: Sequence[Found]
    findings: Sequence[Finding]
    unseen: Mapping[str, Collection[str]]
    mute: Mapping[str, Collection[str] | None]

    @property
    def silent(self) -> frozenset[str]:
        """All places that did not answer, of whatever kind."""
        return frozenset(place for places in self.mute.values() for place in places or ())


def look(ledger: Ledger, inventories: Inventories, within_s: float = math.inf) -> Looked:
    """Lists all kinds, each in a thread of its own. After `within_s` those that go on count as not answered."""
    listed: dict[str, Sequence[Found] | InfrastructureError] = {}
    leases = ledger.listing().leases if math.isfinite(within_s) else ()

    def ask(kind: str, inventory: Inventory) -> None:
        try:
            with waiting(f"{kind}{_of(kind, leases)}", None if math.isinf(within_s) else within_s, firm=True):
                listed[kind] = inventory.list(None)
        except InfrastructureError as error:
            listed[kind] = error

    threads = [
        threading.Thread(target=ask, args=one, daemon=True, name=f"look at {one[0]}")
        for one in inventories.items()
    ]
    for thread in threads:
        thread.start()
    until = time.monotonic() + within_s
    for thread in threads:
        thread.join(None if math.isinf(within_s) else max(0.0, until - time.monotonic()))
    answers = dict(listed)  # those that come later count no more
    late = {kind: _late(kind, leases, within_s) for kind in inventories if kind not in answers}
    return _told({kind: answers.get(kind, late.get(kind, ())) for kind in inventories})


def not_asked_again(inventories: Inventories, looked: Looked) -> Inventories:
    """Returns inventories that say at once of what did not answer just now that it does not."""
    return {
        kind: (_MuteWatched if isinstance(one, Watched) else _Mute)(one, looked.mute[kind])
        if kind in looked.mute
        else one
        for kind, one in inventories.items()
    }


def _late(kind: str, leases: Iterable[Lease], within_s: float) -> InfrastructureError:
    whose = _of(kind, leases)
    return InfrastructureError(f"nobody knows what {kind}{whose} there are: no answer within {within_s:g} s")


def _told(listed: Mapping[str, Sequence[Found] | InfrastructureError]) -> Looked:
    labelled: list[Found] = []
    findings: list[Finding] = []
    unseen: dict[str, Collection[str]] = {}
    mute: dict[str, Collection[str] | None] = {}
    why = ""
    for kind, found in listed.items():
        if isinstance(found, PartlyListed):
            labelled += found.found
            mute[kind] = found.silent
            if blind := places_without_login(found):
                unseen[kind] = blind
                why = why or str(next(found.errors[place] for place in blind))
            if rest := {place: one for place, one in found.errors.items() if place not in blind}:
                findings.append(Finding(f"all {kind}", "not listed", str(PartlyListed(kind, (), rest))))
        elif isinstance(found, InfrastructureError):
            mute[kind] = None
            findings.append(Finding(f"all {kind}", "not listed", str(found)))
        else:
            labelled += found
    if unseen:
        findings.append(not_logged_in(unseen, why))
    return Looked(labelled, findings, unseen, mute)


def _of(kind: str, leases: Iterable[Lease]) -> str:
    """Returns whose leases have things of a kind, the first of them by name."""
    mine = [
        one.name for one in leases if one.state in HELD and any(ref.kind == kind for ref in one.resources)
    ]
    more = f" and {len(mine) - _FEW} more" if len(mine) > _FEW else ""
    return f" of {', '.join(mine[:_FEW])}{more}" if mine else ""


class _Mute:
    """An inventory some of whose places do not answer; None: none does. See Inventory."""

    def __init__(self, inventory: Inventory, places: Collection[str] | None) -> None:
        self._inventory, self._places = inventory, places
        self.kind, self.pace = inventory.kind, inventory.pace
        self.settle_s, self.after = inventory.settle_s, inventory.after

    def sees(self, scope: str) -> bool:
        return self._inventory.sees(scope)

    def list(self, lease_id: str | None) -> Sequence[Found]:
        return self._inventory.list(lease_id)

    def get(self, ref: ResourceRef) -> ResourceRef | None:
        self._heard(ref)
        return self._inventory.get(ref)

    def delete(self, ref: ResourceRef, *, force: bool) -> None:
        self._inventory.delete(ref, force=force)

    def _heard(self, ref: ResourceRef) -> None:
        if self._places is None or ref.scope.partition("/")[0] in self._places:
            raise InfrastructureError(f"{ref.scope} did not answer just now")


class _MuteWatched(_Mute):
    def has_ended(self, ref: ResourceRef) -> bool:
        self._heard(ref)
        assert isinstance(self._inventory, Watched)
        return self._inventory.has_ended(ref)
