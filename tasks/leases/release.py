"""The one way to delete: teardown, reaper and `slicebench reap`. It asks, then looks until all is gone."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from runtime.contract.errors import ExitCode, InfrastructureError
from tasks.leases import lease as leases
from tasks.leases.beyond import vanished, waits_for
from tasks.leases.death import tell_death
from tasks.leases.inventory import Found, Inventories, Inventory, Pace, PartlyListed
from tasks.leases.lease import Lease, Owner, State
from tasks.leases.ledger import Ledger, Unwritable
from tasks.leases.resource import ResourceRef, outermost


@dataclass(frozen=True)
class Patience:
    """How long a release may take: seconds until things are forced, until it gives up, between looks.

    Kinds that are slow to go get longer than `deadline_s`, but never more than `at_most_s`.
    """

    grace_s: float = 8.0
    deadline_s: float = 30.0
    look_every_s: float = 0.1
    renew_every_s: float = 10.0
    at_most_s: float = math.inf

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


@dataclass
class _Sweep:
    """One deletion under way: what was seen, what was asked to go, and what went wrong."""

    inventories: Inventories
    lease_id: str | None  # None: only what is known goes, whatever else the lease has
    known: tuple[ResourceRef, ...]
    seen: dict[tuple[str, str], ResourceRef] = field(default_factory=dict)
    asked: set[tuple[str, str]] = field(default_factory=set)
    problems: dict[str, None] = field(default_factory=dict)
    unseen: dict[str, ResourceRef] = field(default_factory=dict)

    def look(self) -> list[ResourceRef]:
        """Returns what is there, as far as the inventories can tell; `problems` holds what they cannot."""
        self.problems.clear()
        self.unseen.clear()
        present: dict[tuple[str, str], ResourceRef] = {}
        adopted = {(ref.kind, ref.uid or ref.name) for ref in self.known if not ref.ours}
        for kind, inventory in self.inventories.items():
            if self.lease_id is None or (inventory.pace.remote and kind not in self.kinds):
                continue
            for found in self._list(inventory):
                present[kind, found.ref.uid or found.ref.name] = found.ref
        # What was seen once is looked for by itself: an orphan may have no label that a list would find.
        for ref in (*outermost(self.known), *self.seen.values()):
            there = self._get(ref) if ref.ours else None
            if there is not None:
                present[ref.kind, there.uid or there.name] = there
        present = {key: ref for key, ref in present.items() if key not in adopted}
        self.seen.update(present)
        return list(present.values())

    def _list(self, inventory: Inventory) -> Sequence[Found]:
        try:
            return inventory.list(self.lease_id)
        except PartlyListed as error:
            # A lease that the ledger does not know is looked for everywhere, and was found in some places only.
            if error.silent & {ref.scope.partition("/")[0] for ref in self.known}:
                self.problems[f"cannot list {inventory.kind}: {error}"] = None
            return error.found
        except InfrastructureError as error:
            self.problems[f"cannot list {inventory.kind}: {error}"] = None
            return []

    @property
    def kinds(self) -> set[str]:
        """The kinds of what the lease has or had, as far as is known by now."""
        return {ref.kind for ref in (*outermost(self.known), *self.seen.values())}

    def paces(self) -> list[Pace]:
        """Returns how quickly each kind of what is to go can go."""
        return [self.inventories[kind].pace for kind in self.kinds if kind in self.inventories]

    def _get(self, ref: ResourceRef) -> ResourceRef | None:
        inventory = self.inventories.get(ref.kind)
        try:
            if inventory is None:
                raise InfrastructureError(
                    f"no inventory of {ref.kind} here, so nobody can say that it is gone"
                )
            if not inventory.sees(ref.scope):
                raise InfrastructureError(f"it is in {ref.scope}, which cannot be looked at from here")
            return inventory.get(ref)
        except InfrastructureError as error:
            self.unseen[ref.key] = ref
            self.problems[f"cannot look at {ref.kind} {ref.name}: {error}"] = None
            return None

    def cleared(self, present: Sequence[ResourceRef]) -> list[ResourceRef]:
        """Returns what is gone elsewhere and had to be before something that is present may go: keys, say."""
        if self.problems:
            return []
        first = {kind for ref in present for kind in self.inventories[ref.kind].after}
        there = {(ref.kind, ref.uid) for ref in present}
        return [
            ref
            for ref in outermost(self.known)
            if ref.ours and ref.uid is not None and ref.kind in first and (ref.kind, ref.uid) not in there
            and self.inventories[ref.kind].pace.remote
        ]  # fmt: skip

    def ask(self, present: Sequence[ResourceRef], force: bool) -> None:
        """Asks each thing to go, in order of kinds: once politely, then again and again with force."""
        standing = {ref.kind for ref in present}
        for ref in present:
            inventory = self.inventories[ref.kind]
            if inventory.after & standing:
                continue
            if any(waits_for(ref, other, self.inventories) for other in self.unseen.values()):
                continue
            key = (ref.kind, ref.uid or ref.name)
            if key in self.asked and not force:
                continue
            try:
                self.inventories[ref.kind].delete(ref, force=force)
                self.asked.add(key)
            except InfrastructureError as error:
                self.problems[f"cannot delete {ref.kind} {ref.name}: {error}"] = None


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
    return _carry_out(
        _Sweep(inventories, lease.lease_id, lease.resources), lease, patience, meanwhile, strike
    )


def discard(inventories: Inventories, lease: Lease, ref: ResourceRef, patience: Patience = USUAL) -> Release:
    """Deletes one thing made under a lease that goes on, and looks until it is gone. Otherwise as `sweep`."""
    return _carry_out(_Sweep(inventories, None, (ref,)), lease, patience, lambda: None)


def _carry_out(
    work: _Sweep,
    lease: Lease,
    patience: Patience,
    meanwhile: Callable[[], None],
    strike: Callable[[Sequence[ResourceRef]], None] = lambda refs: None,
) -> Release:
    inventories = work.inventories
    begin = time.monotonic()
    empty_since: float | None = None
    soon_s = _SOON_S
    unsure = {ref.kind for ref in outermost(work.known) if ref.ours and ref.uid is None}
    settle_s = max((inventories[kind].settle_s for kind in unsure if kind in inventories), default=0.0)
    while True:
        present = work.look()
        paces = work.paces()
        slowest_s = max((patience.deadline_s, *(pace.goes_within_s for pace in paces if pace.remote)))
        deadline_s = min(slowest_s, patience.at_most_s)
        remote = [pace.look_every_s for pace in paces if pace.remote]
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
    swept = replace(swept, death=tell_death(lease))
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
