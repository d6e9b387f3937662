"""Locks between processes of one machine, which go away with the process that holds them."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from runtime.contract.errors import InfrastructureError

_POLL_S = 0.1


@contextmanager
def locked(
    path: Path,
    doing: str,
    *,
    say: Callable[[str], None],
    timeout_s: float,
    look: Callable[[], None] = lambda: None,
) -> Iterator[int]:
    """Holds the lock file `path` alone for the block. While another holds it, says once who that is and why.

    Yields the descriptor that holds it: a process that inherits that holds it, too, until it ends.

    Raises InfrastructureError when the lock is not free within `timeout_s`, and whatever `look` raises meanwhile.
    """
    descriptor = _open(path)
    try:
        deadline = time.monotonic() + timeout_s
        told = False
        while not _take(descriptor):
            holder = _holder(descriptor)
            if not told:
                say(f"waiting for {holder}")
                told = True
            if time.monotonic() > deadline:
                raise InfrastructureError(
                    f"{path} is still held by {holder} after {timeout_s:.0f} s; end it, or wait"
                )
            look()
            time.sleep(_POLL_S)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps({"pid": os.getpid(), "doing": doing}).encode(), 0)
        yield descriptor
    finally:
        os.close(descriptor)


def hold_shared(path: Path) -> int:
    """Takes a shared lock that lasts until the returned descriptor is closed, or this process ends."""
    descriptor = _open(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
    except OSError as error:
        os.close(descriptor)
        raise InfrastructureError(f"{path}: {error.strerror}") from error
    return descriptor


@contextmanager
def if_free(path: Path) -> Iterator[bool]:
    """Yields whether nobody holds the lock; when so, it is held alone for the block. Does not wait."""
    descriptor = _open(path)
    try:
        yield _take(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def held_alone(path: Path, doing: str) -> Iterator[str | None]:
    """Holds the lock alone for the block, and yields None; or yields who holds it, at once."""
    descriptor = _open(path)
    try:
        if not _take(descriptor):
            yield _holder(descriptor)
            return
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps({"pid": os.getpid(), "doing": doing}).encode(), 0)
        yield None
    finally:
        os.close(descriptor)


def _take(descriptor: int) -> bool:
    """Takes the lock of an open file alone; returns whether nobody was in the way."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _open(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise InfrastructureError(f"{path}: {error.strerror}") from error


def _holder(descriptor: int) -> str:
    try:
        holder = json.loads(os.pread(descriptor, 4096, 0))
        return f"process {holder['pid']}, which is {holder['doing']}"
    except (ValueError, KeyError, TypeError):
        return "another process"
