"""Lease: our claim on hardware, as a ledger keeps it. What may become of one is in steps.py."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from tasks.leases.resource import ResourceRef


class State(enum.StrEnum):
    """How far a lease has come."""

    PLANNED = "planned"
    CREATING = "creating"
    LIVE = "live"
    RELEASING = "releasing"
    LEAKED = "leaked"
    GONE = "gone"


HELD = frozenset({State.PLANNED, State.CREATING, State.LIVE})
"""States in which a lease may be used, renewed and added to."""


@dataclass(frozen=True)
class Owner:
    """The process that a lease lives by.

    `started_at` is in seconds after boot; with `boot_id` and `pid_namespace` it makes a pid mean one process
    only. `claim` is random and new each time a lease is taken: who holds another claim has lost the lease.
    """

    host: str
    boot_id: str
    pid_namespace: str
    pid: int
    started_at: float
    user: str
    claim: str

    def __str__(self) -> str:
        return f"{self.user}'s process {self.pid} on {self.host}"


@dataclass(frozen=True)
class Lease:
    """What a ledger keeps. Times are seconds since the epoch.

    `owner` None: nobody needs to be alive for it, only `expires_at` counts (kept hardware, a run nobody waits
    for, capacity that outlives runs). `expires_at` None: it does not end by time. `holders` are the lease ids
    that share it; the last one out may release it. `note` says why it is in its state, for people.
    `shape` is what the hardware is like: only a run that wants just this may use it again. `price_per_hour` is
    in US dollars, all of it; None: not known. `folder` is the run's (a path or gs://…; empty: not known), and
    `held_by` the process that used the lease last, whoever owns it now: if that dies, the folder says how it ended.
    `forgotten` says what was struck off without being seen to be gone, by whose word and when.
    `stands`: what was made is to stay when somebody who works on it dies (a cluster that is being resized): it is
    put back as it was kept, until `stands_until` (None: for good), and only what is half made goes.
    """

    lease_id: str
    name: str
    run_id: str | None
    epoch: int
    owner: Owner | None
    state: State
    renewed_at: float
    expires_at: float | None
    resources: tuple[ResourceRef, ...] = ()
    holders: tuple[str, ...] = ()
    generation: int = 0
    note: str = ""
    shape: Mapping[str, str] = field(default_factory=dict)
    price_per_hour: float | None = None
    folder: str = ""
    held_by: Owner | None = None
    forgotten: tuple[str, ...] = ()
    stands: bool = False
    stands_until: float | None = None

    def find(self, kind: str, scope: str, name: str) -> ResourceRef | None:
        """Returns what the lease has under exactly this name, or None."""
        for ref in self.resources:
            if (ref.kind, ref.scope, ref.name) == (kind, scope, name):
                return ref
        return None

    @property
    def unconfirmed(self) -> bool:
        """Whether something was about to be made of which nobody knows whether it was."""
        return any(ref.ours and ref.uid is None for ref in self.resources)


LOCK_PREFIX = "lock."
"""Leases of such names are locks on hardware: their holder is who may use it."""


def is_lock(lease: Lease) -> bool:
    """Says whether a lease stands for a lock, under which nothing was made."""
    return lease.name.startswith(LOCK_PREFIX)


WORKLOAD_PREFIX = "workload-"
"""Leases of such names, of no run, stand for workloads that somebody submitted and that go on by themselves."""


def is_submitted(lease: Lease) -> bool:
    """Says whether a lease is of a workload that somebody submitted by hand."""
    return lease.run_id is None and lease.name.startswith(WORKLOAD_PREFIX)


def lease_id(name: str, epoch: int) -> str:
    """Returns the id of a lease, which everything made under it is labelled with."""
    return f"{name}-e{epoch}"
