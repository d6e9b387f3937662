"""Inventories: per kind of resource, the one way to list what a lease made, look at one, and delete it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from runtime.contract.errors import InfrastructureError
from tasks.leases.ledger import Ledger
from tasks.leases.resource import ResourceRef


@dataclass(frozen=True)
class Found:
    """One thing that exists and is labelled with a lease.

    `stays_until`: it has ended, holds no hardware, and goes by itself then (seconds since the epoch; infinity: never).
    """

    lease_id: str
    ref: ResourceRef
    stays_until: float | None = None


class PartlyListed(InfrastructureError):
    """Some places did not answer: `found` is what the others hold, `silent` names those that did not."""

    def __init__(self, kind: str, found: Sequence[Found], silent: Mapping[str, InfrastructureError]) -> None:
        by_error: dict[str, list[str]] = {}
        for place, error in silent.items():
            by_error.setdefault(str(error), []).append(place)
        told = "; ".join(f"{', '.join(places)}: {error}" for error, places in by_error.items())
        super().__init__(f"nobody knows what {kind} there are in {told}")
        self.found = found
        self.silent = frozenset(silent)
        self.errors = silent


@dataclass(frozen=True)
class Pace:
    """How quickly things of a kind come and go: seconds between looks, and until one that was asked is gone.

    `silent_s`: for so long it is asked again where nobody answers at all; None: as for what answers.
    `remote`: looking costs calls to a service that may be out of reach, so it is looked at for those leases only
    that (as the ledger says) made such things.
    """

    look_every_s: float = 0.1
    goes_within_s: float = 30.0
    remote: bool = False
    silent_s: float | None = None


HERE = Pace()
"""Of processes and folders."""


class Inventory(Protocol):
    """Everything of one kind that slicebench made. Looks at the world, never at the ledger.

    Methods raise InfrastructureError when the world does not answer: "could not look" is not "nothing there".
    """

    kind: str
    pace: Pace
    settle_s: float
    """How long after a create call its result may take to show up in a list, seconds."""
    after: frozenset[str]
    """Kinds that must be gone before these are asked to go: folders after the processes that write there."""

    def sees(self, scope: str) -> bool:
        """Whether things in this scope can be looked at from here."""

    def list(self, lease_id: str | None) -> Sequence[Found]:
        """Returns what is labelled with this ledger and this lease (None: with any).

        Raises PartlyListed where only some of the places that it looks at (the first part of scopes) answered.
        """

    def get(self, ref: ResourceRef) -> ResourceRef | None:
        """Returns the thing itself, found by its uid (else by name), or None when it is gone."""

    def delete(self, ref: ResourceRef, *, force: bool) -> None:
        """Asks it to go, without waiting. `force`: at once, without letting it clean up after itself."""


@runtime_checkable
class Resizable(Protocol):
    """The same of a kind whose things are made larger and smaller in place."""

    def bring_to(self, ref: ResourceRef, size: int) -> bool:
        """Returns whether it has this size (or is gone) and nothing changes it; if not, asks it to have it, once
        nothing else is under way: to be called until it does."""


@runtime_checkable
class Telling(Protocol):
    """The same of a kind whose things may be kept from going by others, and say by what."""

    def why_still(self, ref: ResourceRef) -> str:
        """Returns what keeps a thing that was asked to go; empty where nothing is known."""


Inventories = Mapping[str, Inventory]
"""Inventories by kind."""


def open_inventories(ledger: Ledger, scratch: Path | None) -> Inventories:
    """Opens the inventory of every kind. `scratch` holds the folders that are not part of a run's output.

    Without it, those kinds are left out that only the machine they are on can look at.
    """
    from tasks.leases.clusters import inventories as cluster_inventories
    from tasks.leases.directories import DirectoryInventory
    from tasks.leases.environments import inventories as environment_inventories
    from tasks.leases.glance import Glance
    from tasks.leases.hosts import inventories as host_inventories
    from tasks.leases.jobsets import JOBSET, JobSetInventory
    from tasks.leases.locks import LockInventory
    from tasks.leases.policies import inventories as policy_inventories
    from tasks.leases.processes import ProcessInventory
    from tasks.leases.queues import QUEUE, QueueInventory
    from tasks.leases.shares import KIND as SHARE
    from tasks.leases.shares import ShareInventory
    from tasks.leases.tpu_entries import ENTRY, TpuEntryInventory
    from tasks.leases.tpus import inventories as tpu_inventories

    ledger = Glance(ledger)
    here: Inventories = {}
    if scratch is not None:
        here = {"process": ProcessInventory(ledger.id), "directory": DirectoryInventory(scratch, ledger.id)}
    tpus: Inventories = {**tpu_inventories(ledger), ENTRY: TpuEntryInventory(ledger)}
    jobsets: Inventories = {JOBSET: JobSetInventory(ledger), QUEUE: QueueInventory(ledger)}
    around: Inventories = {**policy_inventories(ledger), **environment_inventories(ledger)}
    gke: Inventories = {**jobsets, **cluster_inventories(ledger), **around}
    things: Inventories = {**here, **host_inventories(ledger), **tpus, **gke}
    locks = LockInventory(ledger, after=frozenset(things))
    return {**things, "lock": locks, SHARE: ShareInventory(ledger)}
