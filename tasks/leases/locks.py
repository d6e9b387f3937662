"""Locks on hardware that was there before: one run at a time on a TPU or cluster, whatever machine it runs from.

A lock is a lease of its own, without owner or expiry, that at most one other lease holds. For the lease that
holds it, it is one more thing made under it: written down first, given back last by the one way to delete.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from runtime.contract.errors import BadInput, InfrastructureError
from tasks.leases import owner as owners
from tasks.leases import steps
from tasks.leases.holding import OVERDUE_S, RENEW_EVERY_S, Holding
from tasks.leases.inventory import Found, Pace
from tasks.leases.lease import LOCK_PREFIX, Lease, State, is_lock, lease_id
from tasks.leases.ledger import Conflict, Ledger
from tasks.leases.resource import ResourceRef

KIND = "lock"

_POLL_S = 2.0
_TRIES = 10


class Locked(InfrastructureError):
    """Another lease holds the lock: says which, since when, and until when as far as is known."""


def lock(
    holding: Holding,
    scope: str,
    name: str,
    *,
    wait_s: float = 0.0,
    say: Callable[[str], None] = lambda line: None,
    watch_s: float = 2.5 * RENEW_EVERY_S,
    now: Callable[[], float] = time.time,
    poll_s: float = _POLL_S,
) -> ResourceRef:
    """Takes the lock of a thing for the lease in hand; it goes back when that lease is released.

    Waits for at most `wait_s` seconds, saying once for whom. A holder whose lease is gone, or that expired and
    is not renewed for `watch_s` seconds before our eyes, loses it. Raises Locked, Fenced, Unwritable.
    """
    ledger = holding.ledger
    deadline = time.monotonic() + wait_s
    watched: dict[str, tuple[int, float]] = {}
    told = ""
    while True:
        holder = _holder(ledger, scope, name, holding.lease.lease_id)
        if holder is None or _is_dead(ledger, holder, watched, watch_s, now()):
            try:
                make = lambda holder=holder: _take(ledger, scope, name, holding.lease.lease_id, holder, now())  # noqa: E731
                return holding.create(KIND, scope, name, make)
            except _Lost:
                continue
        who = _told(ledger, scope, name, holder, now())
        if time.monotonic() >= deadline:
            raise Locked(f"{who}; wait for it with --wait-for-lock, or stop that run")
        if holder != told:
            told = holder
            say(f"waiting for at most {deadline - time.monotonic():.0f} s: {who}")
        time.sleep(min(poll_s, max(0.0, deadline - time.monotonic())))
        holding.check()


class LockInventory:
    """Locks, as things that a lease has. See Inventory."""

    kind = KIND
    pace = Pace()
    settle_s = 0.0

    def __init__(self, ledger: Ledger, after: frozenset[str]) -> None:
        self.after = after
        self._ledger = ledger

    def sees(self, scope: str) -> bool:
        """See Inventory. Locks are in the ledger, whatever they are on."""
        return True

    def list(self, lease_id: str | None) -> Sequence[Found]:
        """See Inventory. A lock is found by what its holder wrote down: the ledger is not searched."""
        if lease_id is not None:
            lease = self._ledger.read(lease_id)
            refs = [ref for ref in lease.resources if ref.kind == KIND] if lease else []
            return [Found(lease_id, found) for ref in refs if (found := self._get(ref, lease_id))]
        return [
            Found(holder, _reference(lease))
            for lease in self._ledger.listing().leases
            if is_lock(lease)
            for holder in lease.holders
        ]

    def get(self, ref: ResourceRef) -> ResourceRef | None:
        """See Inventory. A lock is there while the lease that its uid names holds it."""
        return self._get(ref, _holder_of(ref.uid)) if ref.uid else None

    def delete(self, ref: ResourceRef, *, force: bool) -> None:
        """See Inventory. One that somebody else took meanwhile is left to them."""
        for _ in range(_TRIES):
            stored = self._ledger.read(_id(ref.scope, ref.name))
            holder = _holder_of(ref.uid or "")
            if stored is None or holder not in stored.holders:
                return
            try:
                self._ledger.write(steps.leave(stored, holder))
            except Conflict:
                continue
            return
        raise InfrastructureError(f"the lock on {ref.name} in {ref.scope} keeps changing")

    def _get(self, ref: ResourceRef, lease_id: str) -> ResourceRef | None:
        stored = self._ledger.read(_id(ref.scope, ref.name))
        if stored is None or lease_id not in stored.holders:
            return None
        return replace(ref, uid=_uid(lease_id, ref))


class _Lost(Exception):
    """Somebody else was faster."""


def _take(ledger: Ledger, scope: str, name: str, lease_id: str, dead: str | None, now: float) -> str:
    """Writes a lease down as the lock's one holder, in the place of nobody or of a dead one."""
    stored = ledger.read(_id(scope, name))
    fresh = stored or replace(
        steps.plan(_name(scope, name), None, 1, None, now, None), resources=(ResourceRef(KIND, scope, name),)
    )
    uid = _uid(lease_id, ResourceRef(KIND, scope, name))
    if fresh.holders == (lease_id,):
        return uid
    if set(fresh.holders) - {lease_id, dead}:
        raise _Lost
    try:
        ledger.write(replace(fresh, holders=(lease_id,), renewed_at=now))
    except Conflict as error:
        raise _Lost from error
    return uid


def _holder(ledger: Ledger, scope: str, name: str, lease_id: str) -> str | None:
    """Returns the lease that holds the lock, or None when nobody else does."""
    stored = ledger.read(_id(scope, name))
    others = [holder for holder in stored.holders if holder != lease_id] if stored else []
    return others[0] if others else None


def _is_dead(
    ledger: Ledger, holder: str, watched: dict[str, tuple[int, float]], watch_s: float, now: float
) -> bool:
    """Says whether a holder can no longer be using what it locked.

    Workers end by themselves well before their lease expires, so an expired one is enough, if it really is
    not renewed: clocks differ, so that is watched.
    """
    lease = ledger.read(holder)
    if lease is None or lease.state is State.GONE:
        return True
    silent = now - lease.renewed_at > OVERDUE_S
    expired = lease.expires_at is not None and lease.expires_at <= now
    if lease.state is State.LEAKED or lease.owner is None or not silent:
        return False
    if not expired and owners.is_alive(lease.owner) is not False:
        return False
    generation, since = watched.setdefault(holder, (lease.generation, time.monotonic()))
    if generation != lease.generation:
        watched[holder] = (lease.generation, time.monotonic())
        return False
    return time.monotonic() - since >= watch_s


def _told(ledger: Ledger, scope: str, name: str, holder: str, now: float) -> str:
    """Says who holds a lock, since when, and how that lease stands."""
    stored, lease = ledger.read(_id(scope, name)), ledger.read(holder)
    since = (
        f", since {time.strftime('%Y-%m-%d %H:%M:%S UTC', time.gmtime(stored.renewed_at))}" if stored else ""
    )
    if lease is None:
        return f"{name} in {scope} is held by lease {holder}{since}"
    whose = (
        f"{lease.owner}"
        if lease.owner
        else "nobody, as it is kept"
        if lease.state is State.LIVE
        else "nobody"
    )
    note = f" ({lease.note})" if lease.note else ""
    return (
        f"{name} in {scope} is held by lease {holder} of {whose}{since}; that lease is {lease.state}{note}, "
        f"renewed {max(0.0, now - lease.renewed_at):.0f} s ago"
    )


def _reference(lock_lease: Lease) -> ResourceRef:
    (place,) = lock_lease.resources
    return replace(place, uid=_uid(lock_lease.holders[0], place))


def _uid(holder: str, ref: ResourceRef) -> str:
    """Returns the uid of a lock in somebody's hands: one lease may hold several."""
    return f"{holder} {ref.scope}/{ref.name}"


def _holder_of(uid: str) -> str:
    return uid.partition(" ")[0]


def _name(scope: str, name: str) -> str:
    """Returns the name of a lock's lease: what can be read of scope and name, and a hash of both exactly."""
    exact = hashlib.sha256(f"{scope}\0{name}".encode()).hexdigest()[:12]
    readable = re.sub(r"[^A-Za-z0-9-]+", "-", f"{scope}-{name}")[:100].strip("-")
    return f"{LOCK_PREFIX}{readable}.{exact}"


def _id(scope: str, name: str) -> str:
    if not scope or not name:
        raise BadInput(f"a lock needs a scope and a name, not {scope!r} and {name!r}")
    return lease_id(_name(scope, name), 1)
