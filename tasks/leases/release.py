"""The one way to delete: teardown, reaper and `slicebench reap`. It asks, then looks until all is gone."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from runtime.contract.errors import ExitCode
from tasks.leases import steps
from tasks.leases.beyond import vanished
from tasks.leases.death import record_death
from tasks.leases.inventory import Inventories
from tasks.leases.lease import Lease, Owner, State
from tasks.leases.ledger import Ledger, Unwritable
from tasks.leases.patience import USUAL, Patience
from tasks.leases.resource import ResourceRef, outermost
from tasks.leases.sweep import Sweep

_SOON_S, _SOON_AFAR_S = 0.01, 0.25
"""Until the second look, at what is here and at what is elsewhere, and twice as long until each following one: a
folder is gone at once, and so is much that a service deletes.
"""


@dataclass(frozen=True)
class Swept:
    """What a deletion came to. `left` is what was still there, `problems` why, `unseen` what could not be looked at."""

    deleted: tuple[ResourceRef, ...] = ()
    left: tuple[ResourceRef, ...] = ()
    problems: tuple[str, ...] = ()
    unseen: tuple[ResourceRef, ...] = ()

    @property
    def proven(self) -> bool:
        """Whether everything could be looked at, and nothing was there."""
        return not self.left and not self.problems


@dataclass(frozen=True, kw_only=True)
class Release(Swept):
    """The same of a lease, as the ledger has it then. `death`: what was told of a run that was killed, if any."""

    lease: Lease
    death: str = ""

    @classmethod
    def of(cls, swept: Swept, lease: Lease, death: str = "") -> Release:
        """Returns what a deletion came to, with the lease that it was of."""
        return cls(swept.deleted, swept.left, swept.problems, swept.unseen, lease=lease, death=death)

    @property
    def exit_code(self) -> ExitCode:
        """LEAKED unless everything is proven gone."""
        return ExitCode.DONE if self.lease.state is State.GONE else ExitCode.LEAKED


def sweep(
    inventories: Inventories,
    lease: Lease,
    patience: Patience,
    meanwhile: Callable[[], None] = lambda: None,
    strike: Callable[[Sequence[ResourceRef]], None] = lambda refs: None,
) -> Swept:
    """Deletes what is labelled with a lease or written in it, and looks until nothing is there or patience
    ends.

    Touches no ledger; `meanwhile` is called between looks, `strike` with what is gone before that goes without
    which nobody could look there again. It is proven gone if, and only if, everything could be looked at and
    nothing was there: twice, with time to settle, where a create was under way. Where something of a remote
    kind is to go, looks and patience are at that kind's pace; what only a grant would change ends it sooner.
    """
    return _carry_out(Sweep(inventories, lease.lease_id, lease.resources), patience, meanwhile, strike)


def discard(inventories: Inventories, ref: ResourceRef, patience: Patience = USUAL) -> Swept:
    """Deletes one thing made under a lease that goes on, and looks until it is gone. Otherwise as `sweep`."""
    return _carry_out(Sweep(inventories, None, (ref,)), patience)


def _carry_out(
    work: Sweep,
    patience: Patience,
    meanwhile: Callable[[], None] = lambda: None,
    strike: Callable[[Sequence[ResourceRef]], None] = lambda refs: None,
) -> Swept:
    inventories = work.inventories
    begin = time.monotonic()
    empty_since: float | None = None
    denied_since: float | None = None
    longer, tell_s = 1.0, patience.tell_after_s
    unsure = {ref.kind for ref in outermost(work.known) if ref.ours and ref.uid is None}
    settle_s = max((inventories[kind].settle_s for kind in unsure if kind in inventories), default=0.0)
    while True:
        present = work.look()
        deadline_s = work.limit_s(present, patience)
        remote = [pace.look_every_s for pace in work.paces() if pace.remote]
        soon_s = longer * (_SOON_AFAR_S if remote else _SOON_S)
        pause_s = min(soon_s, max([patience.look_every_s, *remote]))
        longer *= 2
        now = time.monotonic()
        if present:
            if cleared := work.cleared(present):
                strike(cleared)
            work.ask(present, force=now - begin >= patience.grace_s)
        empty_since = None if present or work.problems else (empty_since or now)
        if empty_since is not None and now - empty_since >= settle_s:
            return Swept(tuple(work.seen.values()))
        if now - begin >= tell_s:
            tell_s *= 2
            patience.tell(
                f"waiting for {work.told(present)}: {now - begin:.0f} s by now, {deadline_s:.0f} s at most"
            )
        denied_since = (denied_since or now) if work.is_denied(present) else None
        if now - begin >= deadline_s or now - (denied_since or now) >= patience.denied_s:
            deleted = tuple(ref for ref in work.seen.values() if ref not in present)
            unseen = tuple(work.unseen.values())
            problems = (*work.problems, *work.why_still(present))
            return Swept(deleted, tuple(present), problems, unseen)
        meanwhile()
        time.sleep(pause_s)


def release(
    ledger: Ledger,
    lease: Lease,
    inventories: Inventories,
    owner: Owner,
    why: str,
    *,
    beyond: Sequence[ResourceRef] = (),
    patience: Patience = USUAL,
    now: Callable[[], float] = time.time,
) -> Release:
    """Takes the lease (whoever had it is fenced), deletes what was made under it, looks, and writes GONE or
    LEAKED.

    `lease` is as last read: when somebody changed it since, Conflict is raised and nothing was deleted.
    `owner` is this process. What was adopted is never deleted. A lease that is GONE is only returned. What is
    `beyond` sight from here stays in the lease, which then stays RELEASING for whoever can see it. Of a run that
    was killed it is written down how it ended.
    """
    if lease.state is State.GONE:
        return Release(lease=lease)
    hand = _Hand(ledger, ledger.write(steps.releasing(lease, owner, now(), why)), patience.renew_every_s, now)
    if lost := vanished(inventories, hand.lease):
        hand.strike(lost)
        beyond = [ref for ref in beyond if ref not in lost]
    elsewhere = (*beyond, *lost)
    within = replace(hand.lease, resources=tuple(ref for ref in hand.lease.resources if ref not in elsewhere))
    swept = sweep(inventories, within, patience, hand.renew, hand.strike)
    # Before the lease is let go of: whoever is killed in between leaves this to the next.
    death = record_death(lease, given_back=True)
    return Release.of(swept, ledger.write(_let_go(hand.lease, swept, beyond, why)), death)


class _Hand:
    """A lease in the hand that gives it back: renewed now and then, and what is gone is struck off.

    A ledger that fails meanwhile must not stop the deletion; one that says somebody else took over must.
    """

    def __init__(self, ledger: Ledger, lease: Lease, renew_every_s: float, now: Callable[[], float]) -> None:
        self.lease = lease
        self._ledger, self._every_s, self._now = ledger, renew_every_s, now
        self._renewed = time.monotonic()

    def renew(self) -> None:
        if time.monotonic() - self._renewed >= self._every_s:
            self._renewed = time.monotonic()
            self._write(steps.renew(self.lease, self._now(), self.lease.expires_at))

    def strike(self, gone: Sequence[ResourceRef]) -> None:
        there = {ref.key for ref in self.lease.resources}
        if any(ref.key in there for ref in gone):
            self._write(steps.strike_off(self.lease, gone))

    def _write(self, lease: Lease) -> None:
        with contextlib.suppress(Unwritable):
            self.lease = self._ledger.write(lease)


def _let_go(lease: Lease, swept: Swept, beyond: Sequence[ResourceRef], why: str) -> Lease:
    """Returns how the lease is left: gone, in part where some is beyond sight, or leaked."""
    if not swept.proven:
        note = "; ".join((*(f"{ref.kind} {ref.name} is still there" for ref in swept.left), *swept.problems))
        if swept.unseen:
            kinds = " ".join(f"--forget {kind}" for kind in sorted({ref.kind for ref in swept.unseen}))
            note += f"; if what it was on is gone for good, say so: slicebench reap --lease {lease.lease_id} {kinds}"
        return steps.leaked(lease, note)
    if beyond:
        where = ", ".join(sorted({f"{ref.kind} in {ref.scope}" for ref in beyond}))
        note = f"{why}; all is gone but {where}, which can be looked at from there only"
        return steps.partly_gone(lease, beyond, note)
    return steps.gone(lease)
