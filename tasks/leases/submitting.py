"""The lease of a workload that somebody submits: written before its JobSet is made, and then left to itself.

Apart from `holding`, which renews, shares and gives back: who submits waits for what this imports. Two writes are all.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tasks.cloud.labels import labels_for
from tasks.leases import owner as owners
from tasks.leases import steps
from tasks.leases.lease import WORKLOAD_PREFIX, Lease, State
from tasks.leases.ledger import Conflict, Ledger, latest
from tasks.leases.resource import ResourceRef

TERM_S = 600.0
"""Who submits is through in so long, or dead: it does not renew. Longer than all tries of two calls."""


def lease_name(workload: str, cluster: str) -> str:
    """Returns the name of the lease of a workload; `cluster` is what tells its cluster and namespace from others."""
    return f"{WORKLOAD_PREFIX}{workload}-{hashlib.sha256(cluster.encode()).hexdigest()[:8]}"


@dataclass(frozen=True)
class Intent:
    """What is about to be submitted: the lease's name, the JobSet, and until when it may stay (None: for ever)."""

    name: str
    ref: ResourceRef
    expires_at: float | None


class Submitting:
    """A workload that is being made under a lease in this process's hands."""

    def __init__(self, ledger: Ledger, lease: Lease, intent: Intent, now: Callable[[], float]) -> None:
        self.ledger = ledger
        self.lease = lease
        self._intent = intent
        self._now = now

    @property
    def labels(self) -> Mapping[str, str]:
        """What all that is made is labelled with."""
        owner = self.lease.owner
        whose = f"{owner.user}-{owner.host}" if owner else ""
        return labels_for(self.lease.lease_id, self.ledger.id, whose, self._intent.expires_at)

    def stands(self, uid: str) -> None:
        """Says that all of it is there and goes on without this process. Raises Conflict when the lease was lost."""
        made = steps.live(self.as_made(uid))
        self.lease = self.ledger.write(steps.detach(made, self._now(), self._intent.expires_at))

    def as_made(self, uid: str | None) -> Lease:
        """Returns the lease with the uid of its JobSet, as far as that is known."""
        return self.lease if uid is None else steps.confirm(self.lease, replace(self._intent.ref, uid=uid))

    def nothing_was_made(self) -> None:
        """Takes the lease back, where the cluster itself said that it made nothing."""
        self.ledger.remove(self.lease)


def begin(ledger: Ledger, intent: Intent, now: Callable[[], float] = time.time) -> Submitting:
    """Writes down what is about to be made. Raises Unwritable, Unreadable, Conflict; then nothing may be made."""
    last = latest(ledger, intent.name)
    if last is not None and last.state is not State.GONE:
        raise Conflict(f"lease {last.lease_id} was taken meanwhile: another one submits {intent.ref.name}")
    at = now()
    owner = owners.this_process()
    planned = steps.plan(intent.name, None, last.epoch + 1 if last else 1, owner, at, at + TERM_S)
    planned = steps.describe(planned, {}, 0.0)  # the hardware is the cluster's
    return Submitting(ledger, ledger.write(steps.intend(planned, intent.ref)), intent, now)
