"""The one way to delete: teardown, reaper and `slicebench reap`. It asks, then looks until all is gone."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from runtime.contract.errors import ExitCode
from tasks.leases import lease as leases
from tasks.leases.beyond import vanished
from tasks.leases.death import tell_death
from tasks.leases.inventory import Inventories
from tasks.leases.lease import Lease, Owner, State
from tasks.leases.ledger import Ledger, Unwritable
from tasks.leases.resource import ResourceRef, outermost
from tasks.leases.sweep import Sweep


@dataclass(frozen=True)
class Patience:
    """How long a release may take: seconds until things are forced, until it gives up, between looks.

    Kinds that are slow to go get longer than `deadline_s`, but never more than `at_most_s`. `tell` hears what is waited
    for, after `tell_after_s`, and then half as often each time.
    """

    grace_s: float = 8.0
    deadline_s: float = 30.0
    look_every_s: float = 0.1
    renew_every_s: float = 10.0
    at_most_s: float = math.inf
    tell: Callable[[str], None] = field(default=lambda line: None, compare=False)
    tell_after_s: float = 15.0

    def within(self, limit_s: float | None) -> Patience:
        """Returns the same with a time limit that somebody chose, whatever the kinds of what goes; None: without."""
        return self if limit_s is None else replace(self, deadline_s=limit_s, at_most_s=limit_s)


USUAL = Patience()
"""Enough for processes and folders on this machine."""

_SOON_S = 0.01
"""Until the second look at what is here, twice as long until each following one: a folder is gone at once."""


@dataclass(frozen=True)
class Release:
    """How a release ended. `left` is what was still there, `problems` why; GONE: both are empty.

    `unseen` is what could not be looked at. `death` is what was told of a run that had been killed, if there was
    something to tell.
    """

    lease: Lease
    deleted: tuple[ResourceRef, ...] = ()
    left: tuple[ResourceRef, ...] = ()
    problems: tuple[str, ...] = ()
    unseen: tuple[ResourceRef, ...] = ()
    death: str = ""

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
) -> Release:
    """Deletes what is labelled with a lease or written in it, and looks until nothing is there or patience
    ends.

    Touches no ledger; `meanwhile` is called between looks, `strike` with what is gone before that goes without
    which nobody could look there again. `Release.left` is empty and `problems` too if, and
    only if, everything could be looked at and nothing was there: twice, with time to settle, where a create
    was under way. Where something of a remote kind is to go, looks and patience are at that kind's pace.
    """
    return _carry_out(Sweep(inventories, lease.lease_id, lease.resources), lease, patience, meanwhile, strike)


def discard(inventories: Inventories, lease: Lease, ref: ResourceRef, patience: Patience = USUAL) -> Release:
    """Deletes one thing made under a lease that goes on, and looks until it is gone. Otherwise as `sweep`."""
    return _carry_out(Sweep(inventories, None, (ref,)), lease, patience, lambda: None)


def _carry_out(
    work: Sweep,
    lease: Lease,
    patience: Patience,
    meanwhile: Callable[[], None],
    strike: Callable[[Sequence[ResourceRef]], None] = lambda refs: None,
) -> Release:
    inventories = work.inventories
    begin = time.monotonic()
    empty_since: float | None = None
    soon_s, tell_s = _SOON_S, patience.tell_after_s
    unsure = {ref.kind for ref in outermost(work.known) if ref.ours and ref.uid is None}
    settle_s = max((inventories[kind].settle_s for kind in unsure if kind in inventories), default=0.0)
    while True:
        present = work.look()
        deadline_s = work.limit_s(present, patience)
        remote = [pace.look_every_s for pace in work.paces() if pace.remote]
        pause_s = max(patience.look_every_s, *remote) if remote else min(soon_s, patience.look_every_s)
        soon_s *= 2
        now = time.monotonic()
        if present:
            if cleared := work.cleared(present):
                strike(cleared)
            work.ask(present, force=now - begin >= patience.grace_s)
        empty_since = None if present or work.problems else (empty_since or now)
        if empty_since is not None and now - empty_since >= settle_s:
            return Release(lease, deleted=tuple(work.seen.values()))
        if now - begin >= tell_s:
            tell_s *= 2
            patience.tell(
                f"waiting for {work.told(present)}: {now - begin:.0f} s by now, {deadline_s:.0f} s at most"
            )
        if now - begin >= deadline_s:
            deleted = tuple(ref for ref in work.seen.values() if ref not in present)
            unseen = tuple(work.unseen.values())
            return Release(lease, deleted, tuple(present), tuple(work.problems), unseen)
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
        return Release(lease)
    held = ledger.write(leases.releasing(lease, owner, now(), why))
    renewed = time.monotonic()

    def renew() -> None:
        nonlocal held, renewed
        if time.monotonic() - renewed >= patience.renew_every_s:
            renewed = time.monotonic()
            # A ledger that fails now must not stop the deletion; one that says somebody else took over must.
            with contextlib.suppress(Unwritable):
                held = ledger.write(leases.renew(held, now(), held.expires_at))

    def strike(gone: Sequence[ResourceRef]) -> None:
        nonlocal held
        there = {ref.key for ref in held.resources}
        if any(ref.key in there for ref in gone):
            with contextlib.suppress(Unwritable):
                held = ledger.write(leases.strike_off(held, gone))

    lost = vanished(inventories, held)
    if lost:
        strike(lost)
        beyond = [ref for ref in beyond if ref not in lost]
    beyond_or_lost = (*beyond, *lost)
    within = replace(held, resources=tuple(ref for ref in held.resources if ref not in beyond_or_lost))
    swept = sweep(inventories, within, patience, renew, strike)
    # Before the lease is let go of: whoever is killed in between leaves this to the next.
    swept = replace(swept, death=tell_death(lease, given_back=True))
    if not swept.left and not swept.problems and beyond:
        where = ", ".join(sorted({f"{ref.kind} in {ref.scope}" for ref in beyond}))
        note = f"{why}; all is gone but {where}, which can be looked at from there only"
        return replace(swept, lease=ledger.write(leases.partly_gone(held, beyond, note)))
    if not swept.left and not swept.problems:
        return replace(swept, lease=ledger.write(leases.gone(held)))
    note = "; ".join((*(f"{ref.kind} {ref.name} is still there" for ref in swept.left), *swept.problems))
    if swept.unseen:
        kinds = " ".join(f"--forget {kind}" for kind in sorted({ref.kind for ref in swept.unseen}))
        note += (
            f"; if what it was on is gone for good, say so: slicebench reap --lease {held.lease_id} {kinds}"
        )
    return replace(swept, lease=ledger.write(leases.leaked(held, note)))
