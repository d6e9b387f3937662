"""A ledger in a directory of this machine: a file for each lease."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tasks.cloud.local_storage import draft, sync, sync_folder
from tasks.leases.lease import Lease
from tasks.leases.ledger import (
    Listing,
    Unreadable,
    Unwritable,
    checked_lease_id,
    conflict,
    decode,
    encode,
)

_MODE = 0o600
_LOCK_WAIT_S = 20.0


class DirectoryLedger:
    """See Ledger. An exclusive lock for the swap, atomic renames, flushed to disk."""

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
                    stream.write(os.urandom(8).hex().encode())
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
        drafts = (file for file in self._path.iterdir() if file.name[0] == "." and file.name.count(".") > 2)
        for left in drafts:
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
