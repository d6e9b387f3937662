"""Where leases are written down: an interface with compare-and-swap, and the form in which they are."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from runtime.contract.errors import InfrastructureError
from runtime.contract.record import record_of
from tasks.leases.lease import Lease, Owner, State
from tasks.leases.lease import lease_id as id_of
from tasks.leases.resource import Resizing, ResourceRef

VERSION = 1
"""Version of a lease's file. A newer one is refused, and left as it is."""

_LEASE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


class Conflict(InfrastructureError):
    """Somebody else wrote the lease since it was read."""


def conflict(lease: Lease, stored: Lease | None) -> Conflict:
    """Returns the error that something else is stored than what a lease was read as."""
    found = stored.generation if stored else 0
    return Conflict(
        f"lease {lease.lease_id} changed meanwhile: it is at generation {found}, not {lease.generation}"
    )


class Unreadable(InfrastructureError):
    """A lease's file is torn, or of a newer slicebench. It is never written over."""

    def __init__(self, where: str, why: str) -> None:
        super().__init__(f"{where} {why}")
        self.where = where

    @property
    def lease_id(self) -> str:
        """Returns whose file it is: that much its name tells."""
        return self.where.rpartition("/")[2].removesuffix(".json")


class Unwritable(InfrastructureError):
    """The ledger cannot be written, so nothing may be made."""


@dataclass(frozen=True)
class Listing:
    """All leases of a ledger, by id, and why each file that could not be read was not."""

    leases: tuple[Lease, ...]
    unreadable: tuple[Unreadable, ...]


class Ledger(Protocol):
    """Leases by id. Two writers never both win: `write` is what `ifGenerationMatch` is to Cloud Storage."""

    uri: str

    @property
    def id(self) -> str:
        """A random name of this ledger, made with it: labels carry it, so that ledgers keep apart."""

    def exists(self) -> bool:
        """Says whether anything was ever written here."""

    def read(self, lease_id: str) -> Lease | None:
        """Returns the lease with its generation, or None. Raises Unreadable."""

    def write(self, lease: Lease) -> Lease:
        """Writes if what is stored has the generation of `lease` (0: nothing is stored); returns it with the
        next.

        Raises Conflict when somebody else was faster, Unwritable, Unreadable.
        """

    def remove(self, lease: Lease) -> None:
        """Takes a lease out if what is stored has its generation; one that is not there is no error.

        Raises Conflict, Unwritable, Unreadable.
        """

    def listing(self) -> Listing:
        """Returns everything."""


def latest(ledger: Ledger, name: str) -> Lease | None:
    """Returns the lease of the highest epoch of a name, or None."""
    last = None
    while following := ledger.read(id_of(name, last.epoch + 1 if last else 1)):
        last = following
    return last


def checked_lease_id(lease_id: str) -> str:
    """Returns an id that can name a file. Raises Unwritable for any other."""
    if not _LEASE_ID.fullmatch(lease_id):
        raise Unwritable(
            f"{lease_id!r} cannot name a lease: use letters, digits, '.', '_' and '-', at most 200"
        )
    return lease_id


def encode(lease: Lease) -> str:
    """Returns a lease as JSON text with the version."""
    return json.dumps({"version": VERSION, **asdict(lease)}, indent=1, sort_keys=True)


def decode(text: str | bytes, where: str) -> Lease:
    """Returns the lease in a JSON text. Raises Unreadable, saying where and why."""
    fields = _fields(text, where)
    try:
        if fields["version"] > VERSION:
            raise Unreadable(
                where,
                f"was written by a newer slicebench (version {fields['version']}, this one reads {VERSION}): "
                "upgrade; the file stays as it is",
            )
        return record_of(
            Lease,
            fields,
            **{
                name: record_of(Owner, fields[name]) if fields.get(name) else None
                for name in ("owner", "held_by")
            },
            state=State(fields["state"]),
            resources=tuple(_resource(ref) for ref in fields["resources"]),
            holders=tuple(fields["holders"]),
            forgotten=tuple(fields.get("forgotten", ())),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise _torn(where, str(error)) from error


def _resource(content: Any) -> ResourceRef:
    resizing = content.get("resizing")
    return record_of(ResourceRef, content, resizing=record_of(Resizing, resizing) if resizing else None)


def _fields(text: str | bytes, where: str) -> dict[str, Any]:
    try:
        fields = json.loads(text)
    except ValueError as error:
        raise _torn(where, str(error)) from error
    if not isinstance(fields, dict):
        raise _torn(where, "it is no JSON object")
    return fields


def _torn(where: str, why: str) -> Unreadable:
    return Unreadable(
        where,
        f"is not a whole lease ({why}): look at what it names, delete that by hand if it is still there, "
        "then move the file away; slicebench does not touch it",
    )
