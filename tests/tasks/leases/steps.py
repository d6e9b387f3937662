"""Actors that take turns: threads of which one runs at a time, from one look at the world to the next."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from tasks.leases.lease import Lease
from tasks.leases.ledger import Conflict, Listing

_PATIENCE_S = 120.0


class Killed(BaseException):
    """What an actor gets in the place of its next turn: like kill -9, nothing of it is run any more."""


@dataclass
class Actor:
    """One thread. `killed_at` is the turn at which it dies; None: it does not. `error` is what ended it."""

    name: str
    work: Callable[[], None]
    killed_at: int | None = None
    turns: int = 0
    done: bool = False
    dead: bool = False
    error: BaseException | None = None
    go: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))


class Stage:
    """Where actors take turns. `pause` is called by whatever they look at; elsewhere it does nothing."""

    def __init__(self) -> None:
        self._back = threading.Semaphore(0)
        self._here = threading.local()

    def me(self) -> Actor | None:
        """Returns the actor that this thread is."""
        return getattr(self._here, "actor", None)

    def pause(self) -> None:
        """Lets somebody else go on. Raises Killed."""
        actor = self.me()
        if actor is None:
            return
        actor.turns += 1
        self._back.release()
        actor.go.acquire()
        if actor.killed_at is not None and actor.turns >= actor.killed_at:
            actor.dead = True
            raise Killed

    def play(self, actors: Sequence[Actor], picks: Sequence[int]) -> None:
        """Runs all to their end; each number picks whose turn it is, and then they go round."""
        for actor in actors:
            threading.Thread(target=self._run, args=(actor,), name=actor.name, daemon=True).start()
        turns = iter(picks)
        while waiting := [actor for actor in actors if not actor.done]:
            waiting[next(turns, 0) % len(waiting)].go.release()
            assert self._back.acquire(timeout=_PATIENCE_S), "an actor waits for something that nobody does"

    def _run(self, actor: Actor) -> None:
        self._here.actor = actor
        actor.go.acquire()
        try:
            actor.work()
        except BaseException as error:  # noqa: BLE001 (the test looks at it)
            actor.error = error
        actor.done = True
        self._back.release()


class MemoryLedger:
    """A ledger in memory, on a stage. See Ledger."""

    uri = "memory"
    id = "c0ffee"

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._leases: dict[str, Lease] = {}

    def exists(self) -> bool:
        return True

    def read(self, lease_id: str) -> Lease | None:
        self._stage.pause()
        return self._leases.get(lease_id)

    def write(self, lease: Lease) -> Lease:
        self._stage.pause()
        self._compare(lease)
        self._leases[lease.lease_id] = replace(lease, generation=lease.generation + 1)
        return self._leases[lease.lease_id]

    def remove(self, lease: Lease) -> None:
        self._stage.pause()
        if lease.lease_id in self._leases:
            self._compare(lease)
            del self._leases[lease.lease_id]

    def listing(self) -> Listing:
        self._stage.pause()
        return Listing(tuple(self._leases.values()), ())

    def _compare(self, lease: Lease) -> None:
        stored = self._leases.get(lease.lease_id)
        if (stored.generation if stored else 0) != lease.generation:
            raise Conflict(f"lease {lease.lease_id} changed meanwhile")
