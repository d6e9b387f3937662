"""What containers wrote: lines with the time at which each was read, kept until the pod is gone; and who follows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from tests.cloud.kubernetes import clock

_PIECE = 256 * 1024


@dataclass
class ContainerLog:
    """One container's output, both streams as one."""

    lines: list[tuple[int, bytes]] = field(default_factory=list)
    """(nanoseconds since 1970, the line with its newline unless the process ended without one)."""
    ended: bool = False
    grown: asyncio.Event = field(default_factory=asyncio.Event)
    """Replaced at each growth, so that any number may wait for the next."""

    def write(self, line: bytes) -> None:
        """Adds a line."""
        self.lines.append((clock.nanoseconds(), line))
        self._wake()

    def end(self) -> None:
        """Says that nothing more comes."""
        self.ended = True
        self._wake()

    def _wake(self) -> None:
        self.grown.set()
        self.grown = asyncio.Event()


class Logs:
    """The logs of all containers, by pod UID and container name; a restarted container's earlier log too."""

    def __init__(self) -> None:
        """Starts with none."""
        self._all: dict[tuple[str, str], list[ContainerLog]] = {}

    def open(self, uid: str, container: str) -> ContainerLog:
        """Returns the new log of a container that starts."""
        made = ContainerLog()
        self._all.setdefault((uid, container), []).append(made)
        return made

    def find(self, uid: str, container: str, *, previous: bool = False) -> ContainerLog | None:
        """Returns a container's log, or that of its run before."""
        found = self._all.get((uid, container), [])
        at = 2 if previous else 1
        return found[-at] if len(found) >= at else None

    def drop(self, uid: str) -> None:
        """Forgets a pod's logs; who follows them is told that they ended."""
        for key in [key for key in self._all if key[0] == uid]:
            for log in self._all.pop(key):
                log.end()


@dataclass(frozen=True)
class Wanted:
    """What of a log is asked for."""

    follow: bool = False
    timestamps: bool = False
    since_ns: int = 0
    tail: int | None = None
    limit: int | None = None


async def stream(log: ContainerLog, wanted: Wanted, cut: asyncio.Event) -> AsyncIterator[bytes]:
    """Yields a log's text from its past on, and while it is followed until it ends or is cut."""
    at = 0 if wanted.tail is None else max(0, len(log.lines) - wanted.tail)
    left = wanted.limit if wanted.limit is not None else -1
    cutting = asyncio.ensure_future(cut.wait())
    try:
        while not cut.is_set():
            grown, ended = log.grown, log.ended
            size, pieces = 0, []
            while at < len(log.lines) and size < _PIECE:
                stamp, line = log.lines[at]
                at += 1
                if stamp >= wanted.since_ns:
                    pieces.append(
                        clock.nano_text(stamp).encode() + b" " + line if wanted.timestamps else line
                    )
                    size += len(pieces[-1])
            if text := b"".join(pieces)[: left if left >= 0 else None]:
                left -= len(text) if left >= 0 else 0
                yield text
            if left == 0 or (at == len(log.lines) and (ended or not wanted.follow)):
                return
            if at == len(log.lines):
                waiting = asyncio.ensure_future(grown.wait())
                await asyncio.wait({waiting, cutting}, return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
    finally:
        cutting.cancel()
