"""Holding: what a run has in hand. What it makes is written down first, fenced, then recorded."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from runtime.contract.errors import InfrastructureError, Leaked
from runtime.contract.job import LEASE_VARIABLE, LEDGER_VARIABLE
from tasks.cloud.labels import labels_for
from tasks.leases import owner as owners
from tasks.leases import steps
from tasks.leases.inventory import Inventories
from tasks.leases.lease import HELD, Lease, State
from tasks.leases.ledger import Conflict, Ledger, Unwritable
from tasks.leases.patience import USUAL, Patience
from tasks.leases.release import Release, discard, release, sweep
from tasks.leases.resource import Resizing, ResourceRef
from tasks.leases.steps import Step

RENEW_EVERY_S = 10.0
"""How often a run renews its lease, seconds."""

OVERDUE_S = 60.0
"""Renewals are overdue when none was seen for so long."""

TERM_S = 180.0
"""A renewed lease expires after so long without another renewal."""

_TRIES = 10


class Fenced(InfrastructureError):
    """The lease is no longer this run's: somebody released it or took it over. Nothing more may be made."""


class Taken(InfrastructureError):
    """The lease is in another living process's hands."""


class Holding:
    """A lease in this process's hands. Safe to use from several threads."""

    def __init__(
        self,
        ledger: Ledger,
        lease: Lease,
        inventories: Inventories,
        *,
        now: Callable[[], float] = time.time,
        term_s: float = TERM_S,
    ) -> None:
        if lease.owner is None:
            raise ValueError(f"lease {lease.lease_id} has no owner, so nobody holds it")
        self.inventories = inventories
        self.ledger = ledger
        self._lease = lease
        self._claim = lease.owner.claim
        self._now = now
        self._term_s = term_s
        self._lock = threading.RLock()
        self._let_go = False
        self._container = ""
        self._contained: frozenset[str] = frozenset()
        self.lost: Fenced | None = None

    @property
    def lease(self) -> Lease:
        """The lease as this process last wrote or read it."""
        return self._lease

    @property
    def labels(self) -> Mapping[str, str]:
        """What everything made under the lease is labelled with; the environment variables of a process."""
        return {LEASE_VARIABLE: self._lease.lease_id, LEDGER_VARIABLE: self.ledger.id}

    @property
    def resource_labels(self) -> Mapping[str, str]:
        """The same for what a cloud makes: legal labels, with owner and expiry for people to read."""
        owner = self._lease.owner
        whose = f"{owner.user}-{owner.host}" if owner else ""
        return labels_for(self._lease.lease_id, self.ledger.id, whose, self._lease.expires_at)

    def create(
        self,
        kind: str,
        scope: str,
        name: str,
        make: Callable[[], str],
        *,
        dead_man: str = "none",
        half: bool = False,
    ) -> ResourceRef:
        """Makes one thing: writes the intent down, checks the fence, calls `make`, which returns the uid,
        records it. `half`: then it has only been begun, and is half made until `mark` says otherwise.

        `make` labels what it makes with `labels`, and returns what is there when its exact name is there
        already. Raises Fenced, Unwritable or Unreadable before anything was made. When the lease was lost
        while `make` was under way, Fenced is raised; what it made is deleted if the lease was released.
        """
        inside = self._container if kind in self._contained else ""
        ref = ResourceRef(kind, scope, name, dead_man=dead_man, inside=inside, half=half)
        self._advance(lambda lease: steps.intend(lease, ref))
        self.check()
        made = replace(ref, uid=make())
        try:
            self._advance(lambda lease: steps.confirm(lease, made))
        except Fenced:
            stored = self.ledger.read(self._lease.lease_id)
            # Whoever took the lease over has, by its label, what was made; once it is released nobody has.
            if stored is None or stored.state not in HELD:
                sweep(self.inventories, self._lease, USUAL)
            raise
        return made

    def mark(self, refs: Sequence[ResourceRef], *, half: bool, tally: Step = steps.unchanged) -> None:
        """Says of things that were made whether they are half made, or half gone, or whole; `tally` says in the same
        breath what it all comes to: whoever is killed leaves nothing untold.
        """
        self._advance_if_new(lambda lease: tally(steps.mark(lease, refs, half=half)))

    def resize(self, ref: ResourceRef, resizing: Resizing | None, *, tally: Step = steps.unchanged) -> None:
        """Says of something that was made that its size is about to be changed; None: it is as it is to be."""
        self._advance_if_new(lambda lease: tally(steps.resize(lease, ref, resizing)))

    def contain(self, container: ResourceRef, kinds: frozenset[str]) -> None:
        """Says that what is made of these kinds from now on is inside something that the lease made or adopted.

        It is gone when that is gone: nobody can look into a machine that was given back.
        """
        self._container, self._contained = container.key, kinds

    def adopt(self, kind: str, scope: str, name: str, uid: str | None) -> ResourceRef:
        """Records something that was there before: used, never deleted."""
        ref = ResourceRef(kind, scope, name, uid, ours=False)
        self._advance(lambda lease: steps.adopt(lease, ref))
        return ref

    def forget(self, ref: ResourceRef) -> None:
        """Strikes off something that was seen to be gone."""
        self._advance(lambda lease: steps.forget(lease, ref))

    def discard(self, ref: ResourceRef, patience: Patience = USUAL) -> None:
        """Deletes one thing while the lease goes on, looks that it is gone, and strikes it off.

        Raises Fenced when the lease was lost, Leaked when it cannot be proven gone: it stays in the lease.
        """
        self.check()
        done = discard(self.inventories, ref, patience)
        if not done.proven:
            why = "; ".join(done.problems) or "it is still there"
            raise Leaked(f"cannot give back {ref.kind} {ref.name} in {ref.scope}: {why}")
        for inner in [one for one in self._lease.resources if one.inside == ref.key]:
            self.forget(inner)
        self.forget(ref)

    def describe(self, shape: Mapping[str, str], price_per_hour: float | None) -> None:
        """Writes down what the hardware is like, and what it costs an hour."""
        self._advance_if_new(lambda lease: steps.describe(lease, shape, price_per_hour))

    def live(self) -> None:
        """Says that all hardware is there."""
        if self._lease.state is not State.LIVE:
            self._advance(steps.live)

    def renew(self) -> None:
        """Says that the run is alive. Raises Fenced when the lease was lost."""
        self._advance(lambda lease: steps.renew(lease, self._now(), self._now() + self._term_s))

    def stand(self, until: float | None) -> None:
        """Says that what was made stays when this process dies: only what is half made then goes."""
        if not self._lease.stands or self._lease.stands_until != until:
            self._advance(lambda lease: steps.stand(lease, until))

    def detach(self, expires_at: float | None, note: str = "") -> None:
        """Lets the lease live without this process until `expires_at`; nothing more is made through it."""
        with self._lock:
            self._advance(lambda lease: steps.detach(lease, self._now(), expires_at, note))
            self._let_go = True

    def leave(self, until: float, note: str) -> None:
        """Lets the lease and all under it stand by itself until `until`, also after somebody who took it died."""
        with self._lock:
            self._advance(lambda lease: steps.detach(steps.stand(lease, until), self._now(), until, note))
            self._let_go = True

    def fall(self) -> None:
        """Says that what was made no longer stands by itself: from now on it goes when this process dies."""
        if self._lease.stands:
            self._advance(steps.fall)

    @property
    def left(self) -> bool:
        """Whether this process has left the lease to itself, with all under it."""
        return self._let_go and self._lease.owner is None and self._lease.stands

    def check(self) -> None:
        """Raises Fenced unless the ledger still says that the lease is ours."""
        with self._lock:
            self._lease = self._reread()

    def release(self, why: str, patience: Patience = USUAL) -> Release:
        """Deletes everything made under the lease and looks that it is gone. Raises Fenced when it was lost.

        With a ledger that cannot be written everything is deleted all the same, and that is told as a problem.
        """
        with self._lock:
            for _ in range(_TRIES):
                try:
                    done = release(
                        self.ledger,
                        self._lease,
                        self.inventories,
                        owners.this_process(),
                        why,
                        patience=patience,
                        now=self._now,
                    )
                except Conflict:
                    self.check()
                except Unwritable as error:
                    expires_at = self._lease.expires_at
                    if expires_at is not None and expires_at <= self._now():
                        self.check()  # until it expires nobody takes it from a run that lives
                    swept = sweep(self.inventories, self._lease, patience)
                    told = replace(swept, problems=(*swept.problems, str(error)))
                    return Release.of(told, self._lease)
                else:
                    self._lease = done.lease
                    self._let_go = True
                    return done
            raise Conflict(f"lease {self._lease.lease_id} keeps changing; try again")

    @contextlib.contextmanager
    def renewing(
        self, every_s: float = RENEW_EVERY_S, also: Callable[[], None] = lambda: None
    ) -> Iterator[None]:
        """Renews in a thread while the block runs; `also` tells the workers, after each renewal that
        succeeded.

        When the lease is lost the thread ends, `lost` is set, and leaving the block in peace raises it.
        A ledger that cannot be written is tried again: the lease itself says how long that may last.
        """
        done = threading.Event()

        def keep_renewing() -> None:
            while not done.wait(every_s):
                try:
                    with self._lock:
                        if self._let_go:
                            return
                        self.renew()
                    also()
                except Fenced as error:
                    self.lost = error
                    return
                except InfrastructureError:
                    continue

        thread = threading.Thread(target=keep_renewing, name=f"renew {self._lease.lease_id}", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
        if self.lost:
            raise self.lost

    def _advance_if_new(self, step: Step) -> None:
        if step(self._lease) != self._lease:
            self._advance(step)

    def _advance(self, step: Step) -> None:
        """Writes the next state; when another writer was faster and the lease is still ours, tries again."""
        with self._lock:
            for _ in range(_TRIES):
                try:
                    self._lease = self.ledger.write(step(self._lease))
                except Conflict:
                    self._lease = self._reread()
                else:
                    return
            raise Conflict(f"lease {self._lease.lease_id} keeps changing; try again")

    def _reread(self) -> Lease:
        stored = self.ledger.read(self._lease.lease_id)
        if stored is None:
            raise Fenced(f"lease {self._lease.lease_id} is no longer in the ledger {self.ledger.uri}")
        if stored.owner is None or stored.owner.claim != self._claim or stored.state not in HELD:
            by = f" by {stored.owner}" if stored.owner else ""
            why = f" ({stored.note})" if stored.note else ""
            raise Fenced(
                f"lease {stored.lease_id} was lost: it is {stored.state}{by}{why}; nothing more is made"
            )
        return stored
