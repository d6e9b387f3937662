"""Where leases are written down: an interface with compare-and-swap, and a directory of files behind it."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import secrets
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from runtime.contract.errors import InfrastructureError
from runtime.contract.record import record_of
from tasks.cloud.local_storage import draft, sync, sync_folder
from tasks.leases.lease import Lease, Owner, State
from tasks.leases.resource import ResourceRef

VERSION = 1
"""Version of a lease's file. A newer one is refused, and left as it is."""

_MODE = 0o600
_LOCK_WAIT_S = 20.0
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


class DirectoryLedger:
    """A ledger in a directory here: an exclusive lock for the swap, atomic renames, flushed to disk."""

    def __init__(self, path: Path) -> None:
        self.uri = str(path)
        self._path = path

    @property
    def id(self) -> str:
        """See Ledger. Made on first use."""
        file = self._path / "ledger.id"
        with self._unwritable(file), contextlib.suppress(FileExistsError):
            self._path.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not file.exists():
                with draft(file, _MODE) as (made, stream):
                    stream.write(secrets.token_hex(8).encode())
                    sync(stream)
                    # A link, unlike a rename, lets the first of two makers win.
                    os.link(made, file)
        return file.read_text().strip()

    def exists(self) -> bool:
        """See Ledger."""
        return self._path.is_dir()

    def read(self, lease_id: str) -> Lease | None:
        """See Ledger."""
        return _read(self._file(lease_id))

    def write(self, lease: Lease) -> Lease:
        """See Ledger. The lock is held only to compare and rename, never while flushing to disk."""
        file = self._file(lease.lease_id)
        following = replace(lease, generation=lease.generation + 1)
        with self._unwritable(file):
            self._path.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._sweep()
            with draft(file, _MODE) as (made, stream):
                stream.write(encode(following).encode())
                sync(stream)
                with self._lock():
                    _compare(_read(file), lease)
                    made.replace(file)
            sync_folder(self._path)
        return following

    def remove(self, lease: Lease) -> None:
        """See Ledger."""
        file = self._file(lease.lease_id)
        with self._unwritable(file), self._lock():
            stored = _read(file)
            if stored is not None:
                _compare(stored, lease)
                file.unlink()
                sync_folder(self._path)

    def listing(self) -> Listing:
        """See Ledger."""
        leases: list[Lease] = []
        unreadable: list[Unreadable] = []
        for file in sorted(self._path.glob("*.json")):
            try:
                lease = _read(file)
            except Unreadable as error:
                unreadable.append(error)
                continue
            if lease is not None:
                leases.append(lease)
        return Listing(tuple(leases), tuple(unreadable))

    def _file(self, lease_id: str) -> Path:
        return self._path / f"{checked_lease_id(lease_id)}.json"

    def _sweep(self) -> None:
        """Removes what writers who were killed left behind an hour ago or more."""
        for left in self._path.glob(".*.*.*"):
            with contextlib.suppress(FileNotFoundError):
                if time.time() - left.stat().st_mtime > 3600:
                    left.unlink()

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        """Holds the ledger's lock. Waits with a limit: a process that was stopped may be holding it."""
        deadline = time.monotonic() + _LOCK_WAIT_S
        with (self._path / ".lock").open("a") as stream:
            while True:
                try:
                    fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise Unwritable(
                            f"the ledger {self.uri} has been locked for {_LOCK_WAIT_S:.0f} s, by a stopped "
                            f"process perhaps: find it with `fuser {self._path}/.lock`"
                        ) from None
                    time.sleep(0.005)
            yield

    @contextlib.contextmanager
    def _unwritable(self, file: Path) -> Iterator[None]:
        try:
            yield
        except FileExistsError:
            raise
        except OSError as error:
            fix = (
                "free some space"
                if error.errno in (errno.ENOSPC, errno.EDQUOT)
                else "make the folder writable"
            )
            raise Unwritable(
                f"cannot write the lease ledger {file}: {error.strerror}; nothing is made that is not "
                f"written down first: {fix}, or point SLICEBENCH_HOME elsewhere"
            ) from error


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
            resources=tuple(record_of(ResourceRef, ref) for ref in fields["resources"]),
            holders=tuple(fields["holders"]),
            forgotten=tuple(fields.get("forgotten", ())),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise _torn(where, str(error)) from error


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


def _compare(stored: Lease | None, lease: Lease) -> None:
    if (stored.generation if stored else 0) != lease.generation:
        raise conflict(lease, stored)


def _read(file: Path) -> Lease | None:
    try:
        return decode(file.read_bytes(), str(file))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unreadable(str(file), f"cannot be read: {error.strerror}") from error
