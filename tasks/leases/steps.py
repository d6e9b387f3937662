"""Steps of a lease from state to state, as a pure state machine: no clock, no files, no network.

    PLANNED → CREATING → LIVE → RELEASING → GONE     any state but GONE → RELEASING     RELEASING ⇄ LEAKED

Every step takes a lease and returns the next one; `generation` is left alone, for it belongs to the ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from runtime.contract.errors import InfrastructureError
from tasks.leases.lease import HELD, Lease, Owner, State, lease_id
from tasks.leases.resource import Resizing, ResourceRef

Step = Callable[[Lease], Lease]
"""What a lease becomes."""


class IllegalTransition(InfrastructureError):
    """A lease was asked for a step that its state does not allow."""


def unchanged(lease: Lease) -> Lease:
    """Leaves it as it is."""
    return lease


def plan(
    name: str, run_id: str | None, epoch: int, owner: Owner | None, now: float, expires_at: float | None
) -> Lease:
    """Returns a new lease, under which nothing exists yet."""
    id_ = lease_id(name, epoch)
    return Lease(id_, name, run_id, epoch, owner, State.PLANNED, now, expires_at, held_by=owner)


def serve(lease: Lease, run_id: str | None, folder: str) -> Lease:
    """Says which run the lease serves now, and where that run's folder is."""
    _require(lease, HELD, "use")
    return replace(lease, run_id=run_id, folder=folder)


def describe(lease: Lease, shape: Mapping[str, str], price_per_hour: float | None) -> Lease:
    """Writes down what the hardware is like and what it costs an hour."""
    _require(lease, HELD, "describe")
    return replace(lease, shape=dict(shape), price_per_hour=price_per_hour)


def intend(lease: Lease, ref: ResourceRef) -> Lease:
    """Writes down that something is about to be made. `ref.uid` is None until it has been."""
    _require(lease, HELD, f"make {ref.kind} {ref.name} under")
    state = State.CREATING if lease.state is State.PLANNED else lease.state
    return replace(lease, state=state, resources=_with(lease, replace(ref, uid=None, ours=True)))


def confirm(lease: Lease, ref: ResourceRef) -> Lease:
    """Records the uid of something that was intended and now exists."""
    _require(lease, HELD, f"confirm {ref.kind} {ref.name} of")
    known = lease.find(ref.kind, ref.scope, ref.name)
    if known is None or not known.ours:
        raise IllegalTransition(f"lease {lease.lease_id} never intended to make {ref.kind} {ref.name}")
    return replace(lease, resources=_with(lease, ref))


def mark(lease: Lease, refs: Sequence[ResourceRef], *, half: bool) -> Lease:
    """Says of what was made whether it is half made (or half gone) or whole; what is not there is left out."""
    _require(lease, HELD, "say how far things are of")
    places = {_place(ref) for ref in refs}
    return replace(
        lease,
        resources=tuple(
            replace(ref, half=half) if ref.ours and _place(ref) in places else ref for ref in lease.resources
        ),
    )


def resize(lease: Lease, ref: ResourceRef, resizing: Resizing | None) -> Lease:
    """Says of something that was made that its size is about to be changed; None: it is as it is to be."""
    _require(lease, HELD, f"resize {ref.kind} {ref.name} of")
    return replace(
        lease,
        resources=tuple(
            replace(known, resizing=resizing) if known.ours and _place(known) == _place(ref) else known
            for known in lease.resources
        ),
    )


def adopt(lease: Lease, ref: ResourceRef) -> Lease:
    """Records something that was there before: used, never deleted."""
    _require(lease, HELD, f"adopt {ref.kind} {ref.name} for")
    known = lease.find(ref.kind, ref.scope, ref.name)
    if known is not None and known.ours:
        raise IllegalTransition(f"lease {lease.lease_id} made {ref.kind} {ref.name} itself: it stays its own")
    state = State.CREATING if lease.state is State.PLANNED else lease.state
    return replace(lease, state=state, resources=_with(lease, replace(ref, ours=False)))


def forget(lease: Lease, ref: ResourceRef) -> Lease:
    """Strikes off something that has been seen to be gone (a worker that ended, a preempted machine)."""
    _require(lease, HELD, f"strike {ref.kind} {ref.name} off")
    kept = tuple(known for known in lease.resources if _place(known) != _place(ref))
    return replace(lease, resources=kept)


def live(lease: Lease) -> Lease:
    """Says that everything planned is there. Raises IllegalTransition while an intent is unconfirmed."""
    _require(lease, HELD, "go live with")
    if lease.unconfirmed:
        missing = next(ref for ref in lease.resources if ref.ours and ref.uid is None)
        raise IllegalTransition(
            f"lease {lease.lease_id}: {missing.kind} {missing.name} is not known to exist"
        )
    return replace(lease, state=State.LIVE)


def renew(lease: Lease, now: float, expires_at: float | None) -> Lease:
    """Says that the owner (or, while RELEASING, whoever releases) is alive. Time never runs backwards."""
    _require(lease, HELD | {State.RELEASING}, "renew")
    return replace(lease, renewed_at=max(now, lease.renewed_at), expires_at=expires_at)


def stand(lease: Lease, until: float | None) -> Lease:
    """Says that what was made is there to stay until `until` (seconds since the epoch; None: for good)."""
    _require(lease, HELD, "keep")
    return replace(lease, stands=True, stands_until=until)


def fall(lease: Lease) -> Lease:
    """Takes that back: what was made goes with who works on it."""
    _require(lease, HELD, "no longer keep")
    return replace(lease, stands=False, stands_until=None, note="")


def take(lease: Lease, owner: Owner, now: float, expires_at: float | None) -> Lease:
    """Gives the lease to another owner: a run that is resumed, hardware that was kept."""
    _require(lease, HELD, "take over")
    renewed_at = max(now, lease.renewed_at)
    return replace(lease, owner=owner, held_by=owner, renewed_at=renewed_at, expires_at=expires_at)


def detach(lease: Lease, now: float, expires_at: float | None, note: str = "") -> Lease:
    """Lets the lease live without an owner, until `expires_at`; `note` says why, where it is not just kept."""
    _require(lease, HELD, "detach")
    renewed_at = max(now, lease.renewed_at)
    return replace(lease, owner=None, renewed_at=renewed_at, expires_at=expires_at, note=note)


def stay(lease: Lease, until: float) -> Lease:
    """Lets what nobody owns stay at least until `until`."""
    _require(lease, HELD, "keep")
    ends = None if lease.expires_at is None else max(lease.expires_at, until)
    return replace(lease, expires_at=ends)


def join(lease: Lease, holder: str) -> Lease:
    """Adds a lease that shares this one."""
    _require(lease, HELD, "share")
    return lease if holder in lease.holders else replace(lease, holders=(*lease.holders, holder))


def leave(lease: Lease, holder: str) -> Lease:
    """Takes a sharer off, in any state; one that is not there is no error.

    When the last one leaves what was made for a run, the lease expires, unless it says itself until when it is
    kept; capacity made for no run stays.
    """
    left = tuple(other for other in lease.holders if other != holder)
    last_out = bool(lease.holders) and not left and lease.run_id is not None
    ends = last_out and lease.expires_at is None
    return replace(lease, holders=left, expires_at=lease.renewed_at if ends else lease.expires_at)


def releasing(lease: Lease, owner: Owner, now: float, why: str) -> Lease:
    """Takes the lease for good: `owner` is now whoever releases it, so that the former owner is fenced."""
    _require(lease, frozenset(State) - {State.GONE}, "release")
    if lease.holders:
        raise IllegalTransition(f"lease {lease.lease_id} is still shared by {', '.join(lease.holders)}")
    renewed_at = max(now, lease.renewed_at)
    return replace(lease, state=State.RELEASING, owner=owner, renewed_at=renewed_at, note=why)


def partly_gone(lease: Lease, left: Sequence[ResourceRef], why: str) -> Lease:
    """Says that all but `left` is gone, and lets go of the lease: whoever can look at those goes on.

    What was there before, and they are inside of, is kept in mind: when it goes, they went with it.
    """
    _require(lease, frozenset({State.RELEASING}), "call partly gone")
    around = {ref.inside for ref in left}
    containers = tuple(ref for ref in lease.resources if not ref.ours and ref.key in around)
    return replace(lease, owner=None, resources=(*containers, *left), note=why)


def strike_off(lease: Lease, gone: Sequence[ResourceRef]) -> Lease:
    """Strikes off what was seen to be gone while the lease is being released."""
    _require(lease, frozenset({State.RELEASING}), "strike something off")
    places = {_place(ref) for ref in gone}
    return replace(lease, resources=tuple(ref for ref in lease.resources if _place(ref) not in places))


def strike_off_by_word(lease: Lease, refs: Sequence[ResourceRef], history: Sequence[str]) -> Lease:
    """Strikes off what somebody says is gone although nobody can look, and writes down whose word that was."""
    return replace(strike_off(lease, refs), forgotten=(*lease.forgotten, *history))


def leaked(lease: Lease, why: str) -> Lease:
    """Says that something could not be proven gone."""
    _require(lease, frozenset({State.RELEASING}), "call leaked")
    return replace(lease, state=State.LEAKED, owner=None, note=why)


def gone(lease: Lease) -> Lease:
    """Says that we looked and nothing is left. The end."""
    _require(lease, frozenset({State.RELEASING}), "call gone")
    return replace(lease, state=State.GONE, owner=None)


def _place(ref: ResourceRef) -> tuple[str, str, str]:
    return (ref.kind, ref.scope, ref.name)


def _with(lease: Lease, ref: ResourceRef) -> tuple[ResourceRef, ...]:
    """Returns the resources with `ref` in the place of one of the same name, or added."""
    others = tuple(known for known in lease.resources if _place(known) != _place(ref))
    return (*others, ref)


def _require(lease: Lease, allowed: frozenset[State], doing: str) -> None:
    if lease.state not in allowed:
        raise IllegalTransition(f"cannot {doing} lease {lease.lease_id}: it is {lease.state}")
