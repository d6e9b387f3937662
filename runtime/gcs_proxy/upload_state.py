"""How far a resumable upload is: what the store keeps, and what is held here until it makes a whole block."""

from __future__ import annotations

import itertools
import re
import threading
from dataclasses import dataclass, field
from typing import Any

from runtime.gcs_proxy.format import SEGMENT_BYTES
from runtime.gcs_proxy.messages import Body
from runtime.gcs_proxy.refusal import invalid
from runtime.gcs_proxy.sealing import Plaintext

QUANTUM = 256 << 10
"""Of an upload that is not over, stores keep multiples of this many bytes."""
BLOCK_SEGMENTS = QUANTUM // SEGMENT_BYTES
_MARKS = 4096
"""Of so many blocks that were sent last, 1 GiB, it is known where the upload was before: a store that kept less than
that of one request is not gone back to, and no request takes more memory for being larger."""
_CONTENT_RANGE = re.compile(r"bytes (?:([0-9]{1,18})-([0-9]{1,18})|\*)/([0-9]{1,18}|\*)")


@dataclass(frozen=True)
class Chunk:
    """What a client sends, by its Content-Range: `size` bytes from `first` on, of `total` if it says so."""

    first: int
    size: int | None
    total: int | None
    query: bool = False


def parse_chunk(text: str, length: int | None) -> Chunk:
    """Returns what a request brings; `length` is its body's, where that is known. Raises Refused (400)."""
    if not text:
        return Chunk(0, length, length)
    found = _CONTENT_RANGE.fullmatch(text)
    if not found:
        raise invalid(f"Failed to parse Content-Range header: {text[:60]!r}")
    total = None if found[3] == "*" else int(found[3])
    if found[1] is None:
        if length:
            raise invalid("a status query has no body")
        return Chunk(0, 0, total, query=True)
    first, last = int(found[1]), int(found[2])
    if last < first or (total is not None and last >= total) or length not in (None, last - first + 1):
        raise invalid(f"Content-Range {text!r} does not fit the body, or itself")
    return Chunk(first, last - first + 1, total)


@dataclass(slots=True)
class Mark:
    """Where an upload was before a block: what is needed to go back there."""

    crc32c: int
    sealed_crc32c: int
    md5: Any


@dataclass
class Session:
    """One resumable upload. Whoever changes it has its lock."""

    bucket: str
    name: str
    target: str
    """Path and query of the store's own session."""
    sealing: Plaintext | None
    """None where the object passes as it is."""
    total: int | None = None
    """How many bytes it has, by what began it."""
    held: bytes = b""
    """Plaintext that the client was told to be here, and the store was not sent yet."""
    marks: dict[int, Mark] = field(default_factory=dict)
    """By segment, in their order: what the store surely keeps, then the last of what it was sent."""
    uncertain: bool = False
    """Whether the store is to be asked what it keeps."""
    done: bytes | None = None
    used: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def plain(self) -> Plaintext:
        """What was seen of the plaintext; of objects that pass there is none."""
        assert self.sealing is not None
        return self.sealing

    @property
    def received(self) -> int:
        """How many bytes of the plaintext the client need not send again."""
        return self.plain.sealer.plain + len(self.held)

    def mark(self) -> None:
        """Notes where the upload is now."""
        md5, sealer = self.plain.md5, self.plain.sealer
        self.marks[sealer.index] = Mark(sealer.crc32c, sealer.sealed_crc32c, md5.copy() if md5 else None)
        if len(self.marks) > _MARKS:
            _, oldest, *_ = itertools.islice(self.marks, 2)
            del self.marks[oldest]

    def settle(self) -> None:
        """All that was sent is kept: nobody goes back before here."""
        self.marks.clear()
        self.mark()
        self.uncertain = False

    def go_back(self, kept: int) -> bool:
        """Goes to where the store is, with `kept` bytes of ours; False where it cannot be there."""
        index, over = divmod(kept, SEGMENT_BYTES)
        if over or index not in self.marks:
            return False
        base = next(iter(self.marks))
        found, capacity = self.marks[index], self.plain.sealer.layout.capacity
        self.plain.sealer.rewind(index, found.crc32c, found.sealed_crc32c)
        self.plain.md5 = found.md5.copy() if found.md5 else None
        self.held = self.held[(index - base) * capacity :]
        self.settle()
        return True


class Sending:
    """What goes to the store next: what was held, then what the client sends, from where we are, up to its size."""

    def __init__(self, held: bytes, body: Body, size: int | None) -> None:
        self._held, self._body, self._left = held, body, size

    def fill(self, view: memoryview) -> int:
        """Fills a buffer as far as it goes; returns how many bytes came. Raises Closed, Refused."""
        taken = min(len(view), len(self._held))
        view[:taken] = self._held[:taken]
        self._held = self._held[taken:]
        wanted = view[taken:] if self._left is None else view[taken : taken + self._left]
        came = self._body.fill(wanted)
        if self._left is not None:
            self._left -= came
            if not self._left and self._body.read_into(memoryview(bytearray(1))):
                raise invalid("the body is longer than its Content-Range")
        return taken + came


def kept_by(text: str) -> int | None:
    """Returns how many bytes a store keeps, by the Range of its answer; None where that says nothing clear."""
    if not text:
        return 0
    found = re.fullmatch(r"(?:bytes=)?0-([0-9]{1,18})", text)
    return int(found[1]) + 1 if found else None
