"""The stream file: what a supervisor says, appended record by record, whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from runtime.contract.errors import InfrastructureError
from runtime.contract.progress import Body, Exited, Log, Record, encode, parse_record

_RESERVE = 256 << 10
"""Bytes kept back for the last words: a full disk must not keep the cause to itself."""


class Stream:
    """Appends records to a stream file; several threads may write.

    Opening goes on after the last whole record of an earlier supervisor of the same attempt: what
    follows it is cut off. When the file can no longer be written, `write` drops log lines, calls
    `on_trouble` once with the cause in one line, and never raises or blocks: supervising goes on. Raises
    InfrastructureError when the file cannot be opened or another supervisor holds it.
    """

    def __init__(self, path: Path, on_trouble: Callable[[str], None]) -> None:
        self.path = path
        self.trouble = ""
        self._lost_last = False
        self._on_trouble = on_trouble
        self._lock = threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InfrastructureError(
                f"{path} is in use: a supervisor of this attempt runs already; follow it or end it first"
            ) from error
        except OSError as error:
            raise InfrastructureError(
                f"cannot open {path}: {error.strerror}; choose another --output"
            ) from error
        self.last = last_record(path)
        self._seq = self.last.seq if self.last else 0
        self._end = _end_of_records(self._fd, self.last)
        os.ftruncate(self._fd, self._end)
        self._reserve = path.with_name(f".{path.name}.reserve")
        self._keep_reserve()

    def write(self, *bodies: Body) -> None:
        """Appends records, all with one call to the kernel."""
        with self._lock:
            cause = self._append(bodies)
        if cause:
            self._on_trouble(cause)

    def close(self, exited: Exited) -> bool:
        """Writes the last record and closes the file. Returns False when the record found no room."""
        with self._lock:
            if not self.trouble:
                self._drop_reserve()
            self._append([exited])
            written = not self._lost_last
            self._drop_reserve()
            os.close(self._fd)
        return written

    def _append(self, bodies: list[Body] | tuple[Body, ...]) -> str:
        """Returns the cause when this is the first write that failed."""
        self._lost_last = False
        if self.trouble:
            bodies = [body for body in bodies if not isinstance(body, Log)]
        if not bodies:
            return ""
        try:
            self._put(bodies)
        except OSError as error:
            first = not self.trouble
            self.trouble = self.trouble or _cause(error, self.path)
            self._drop_reserve()
            bodies = [body for body in bodies if not isinstance(body, Log)]
            try:
                self._put([Log(self.trouble, "supervisor"), *bodies] if first else bodies)
            except OSError:
                self._lost_last = True
            return self.trouble if first else ""
        return ""

    def _put(self, bodies: list[Body] | tuple[Body, ...]) -> None:
        now = time.time()
        data = b"".join(
            encode(body, seq=self._seq + n, at=now).encode() + b"\n" for n, body in enumerate(bodies, 1)
        )
        done = 0
        try:
            while done < len(data):
                done += os.pwrite(self._fd, data[done:], self._end + done)
        except OSError:
            with contextlib.suppress(
                OSError
            ):  # what stays is cut off by the next write, or by the next supervisor
                os.ftruncate(self._fd, self._end)
            raise
        self._end += len(data)
        self._seq += len(bodies)

    def _keep_reserve(self) -> None:
        with contextlib.suppress(OSError):  # no reserve then: only the last words would be lost
            fd = os.open(self._reserve, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(fd, 0, _RESERVE)
            finally:
                os.close(fd)

    def _drop_reserve(self) -> None:
        with contextlib.suppress(OSError):
            self._reserve.unlink(missing_ok=True)


def records(path: Path) -> Iterator[Record]:
    """Yields the records of a stream file that nobody writes to."""
    with path.open("rb") as lines:
        for line in lines:
            with contextlib.suppress(ValueError):
                yield parse_record(line)


def last_record(path: Path) -> Record | None:
    """Returns the last whole record of a stream file, or None when it holds none."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        window = 1 << 16
        while True:
            start = max(0, end - window)
            file.seek(start)
            lines = file.read(end - start).split(b"\n")
            # The first is cut at its start unless this is the start of the file; the last has no newline.
            for line in reversed(lines[1 if start else 0 : -1]):
                with contextlib.suppress(ValueError):
                    return parse_record(line)
            if start == 0:
                return None
            window *= 4


def _end_of_records(fd: int, last: Record | None) -> int:
    """Returns where the last whole record ends."""
    if last is None:
        return 0
    end = os.fstat(fd).st_size
    window = 1 << 16
    while True:
        start = max(0, end - window)
        data = os.pread(fd, end - start, start)
        place = data.rfind(b'{"seq":%d,' % last.seq)
        if place >= 0:
            return start + data.index(b"\n", place) + 1
        window *= 4


def _cause(error: OSError, path: Path) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"no space left on {path.parent} for {path.name}: free some, or choose another --output"
    return f"cannot write {path}: {error.strerror}"
