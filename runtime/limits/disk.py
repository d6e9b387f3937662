"""How fast the file system of the output writes and reads, past the page cache where that is possible.

A file is written and read back in chunks by several threads, as checkpoints are. It has no name any more once it is
open: nothing is left of it, whatever happens.
"""

from __future__ import annotations

import contextlib
import itertools
import mmap
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from runtime.contract.limits import DISK_READ, DISK_WRITE, Limit
from runtime.output import is_remote

PASSES = 3
PASS_BYTES = 128 << 20
PASS_S = 0.25
"""A pass ends after so many bytes, or when so much time has passed and each thread has moved a chunk."""

_ENOUGH_S = 1.5
"""No other pass begins after that: a disk on which one takes long is known well enough."""

_CHUNK = 4 << 20
_THREADS = 8
_LEAVE_FREE = 4
"""How many times what is written has to be free: nobody's disk gets full by this."""

DIRECT = "past the page cache"
FLUSHED = "through the page cache, flushed"
IN_MEMORY = "a file system in memory"

Clock = Callable[[], float]
Move = Callable[[int, int], int]
"""Moves one chunk: thread's number, offset in the file; returns how many bytes."""


def disk(
    output: str,
    file_system: str,
    name: str,
    meet: Callable[[], None],
    pass_bytes: int = PASS_BYTES,
    clock: Clock = time.perf_counter,
) -> dict[str, Limit]:
    """Returns the limits of writing and reading in the folder `output`; `name` is this worker's own there.

    `meet` is called before either, the same number of times whatever happens: all workers begin together, as they do
    in a benchmark, so that what each gets is its part.
    """
    with contextlib.ExitStack() as stack:
        try:
            file: _File | None = stack.enter_context(_opened(output, file_system, name, pass_bytes, clock))
            why = ""
        except (OSError, _Skipped) as error:
            file, why = None, _words(error)
        found = {}
        for limit, move in ((DISK_WRITE, "write"), (DISK_READ, "read")):
            meet()
            found[limit] = Limit(skipped=why)
            if file is not None:
                try:
                    found[limit] = file.measured(move)
                except OSError as error:
                    file, why = None, _words(error)
                    found[limit] = Limit(skipped=why)
        return found


class _Skipped(Exception):
    """There is nothing to measure; the text says why."""


def _words(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)


@contextlib.contextmanager
def _opened(output: str, file_system: str, name: str, pass_bytes: int, clock: Clock) -> Iterator[_File]:
    if is_remote(output):
        raise _Skipped("the output is a bucket")
    Path(output).mkdir(parents=True, exist_ok=True)
    path = Path(output, name)
    told = os.statvfs(output)
    free = told.f_bavail * told.f_frsize
    if free < _LEAVE_FREE * PASSES * pass_bytes:
        raise _Skipped(f"only {free >> 20} MiB are free in the output")
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    how = IN_MEMORY if file_system in ("tmpfs", "ramfs") else DIRECT
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    try:
        fd = os.open(path, flags | os.O_DIRECT, 0o600)
    except OSError:  # not every file system can
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
        fd, how = os.open(path, flags, 0o600), IN_MEMORY if how == IN_MEMORY else FLUSHED
    try:
        path.unlink()
        yield _File(fd, how, pass_bytes, clock)
    finally:
        os.close(fd)


class _File:
    """The open file, and how it is moved."""

    def __init__(self, fd: int, how: str, pass_bytes: int, clock: Clock) -> None:
        self._fd, self._how, self._clock = fd, how, clock
        self._chunks = max(_THREADS, pass_bytes // _CHUNK)
        self._written: list[int] = []
        # Memory of its own pages: what goes past the page cache has to be aligned.
        self._buffers = [mmap.mmap(-1, _CHUNK) for _ in range(_THREADS)]
        for number, buffer in enumerate(self._buffers):
            buffer.write(os.urandom(_CHUNK // 64) * 64)  # no disk compresses that to nothing
            buffer[:8] = number.to_bytes(8, "little")

    def measured(self, move: str) -> Limit:
        """Writes all passes, each to a place of its own, or reads them back."""
        speeds, size, until = [], 0, self._clock() + _ENOUGH_S
        for number in range(PASSES if move == "write" else len(self._written)):
            size, seconds = self._write(number) if move == "write" else self._read(number)
            speeds.append(size / seconds)
            if self._clock() > until:
                break
        return Limit(values=tuple(speeds), how=self._how, size_bytes=size)

    def _write(self, number: int) -> tuple[int, float]:
        start = number * self._chunks * _CHUNK

        def write(thread: int, offset: int) -> int:
            return os.pwrite(self._fd, self._buffers[thread], start + offset)

        begin = self._clock()
        size = _moved(write, self._chunks, begin + PASS_S, self._clock)
        os.fdatasync(self._fd)
        seconds = self._clock() - begin
        self._written.append(size)
        return size, seconds

    def _read(self, number: int) -> tuple[int, float]:
        start = number * self._chunks * _CHUNK
        if self._how == FLUSHED:
            os.posix_fadvise(self._fd, 0, 0, os.POSIX_FADV_DONTNEED)

        def read(thread: int, offset: int) -> int:
            return os.preadv(self._fd, [self._buffers[thread]], start + offset)

        begin = self._clock()
        size = _moved(read, self._written[number] // _CHUNK, begin + PASS_S, self._clock)
        return size, self._clock() - begin


def _moved(move: Move, chunks: int, until: float, clock: Clock) -> int:
    """Has threads move chunks from the first on, until all are moved or time is up; returns the bytes."""
    following = itertools.count()

    def go(thread: int) -> int:
        size = 0
        for chunk in following:
            if chunk >= chunks:
                break
            if moved := move(thread, chunk * _CHUNK):
                size += moved
            if moved < _CHUNK:
                raise OSError(f"only {moved} of {_CHUNK} bytes could be moved")
            if clock() > until:
                break
        return size

    with ThreadPoolExecutor(_THREADS) as pool:
        return sum(pool.map(go, range(_THREADS)))
