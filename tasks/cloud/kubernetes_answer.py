"""Answers by HTTP/1.1, put together from what comes of them: in chunks, of a length, or up to the connection's end.

Nothing is read here. Who reads, waiting or not, hands over what came; it costs a few microseconds a piece.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

_LONGEST_HEAD = 64 << 10
_BODILESS = (204, 304)


class Head(NamedTuple):
    """What an answer begins with; names of headers in lower case."""

    status: int
    headers: Mapping[str, str]


class Answer:
    """One answer after the other, of one connection. `parts` is what came of its body and was not taken yet."""

    def __init__(self) -> None:
        self.got: Head | None = None
        self.parts: list[bytes] = []
        self.waiting = 0
        """How many bytes `parts` has."""
        self.whole = True
        self.stays = True
        """Whether the server keeps the connection after this answer."""
        self._buffer = b""
        self._left: int | None = 0  # bytes of this chunk or answer; None: up to the end of the connection
        self._chunked = False
        self._gap = 0  # bytes between chunks that say nothing
        self._trailing = False

    def expect(self) -> None:
        """Another one is going to come."""
        self.got, self.whole = None, False
        self.parts, self.waiting = [], 0

    def take(self, data: bytes) -> None:
        """Takes what came. Raises ValueError for what is no answer."""
        if self._buffer:
            data = self._buffer + data
        if self.got is None:
            end = data.find(b"\r\n\r\n")
            if end < 0:
                if len(data) > _LONGEST_HEAD:
                    raise ValueError("its head has no end")
                self._buffer = data
                return
            self._begin(data[:end])
            data = data[end + 4 :]
        self._buffer = b""
        if self.whole:
            return
        if self._chunked:
            self._take_chunks(data)
        else:
            self._take_plain(data)

    def closed(self) -> bool:
        """The connection ended in order. Returns whether that is the answer's end, too."""
        if self.got is not None and self._left is None:
            self.whole = True
        return self.whole

    def taken(self) -> bytes:
        """Returns what came of the body since the last time."""
        data = self.parts[0] if len(self.parts) == 1 else b"".join(self.parts)
        self.parts, self.waiting = [], 0
        return data

    def _begin(self, head: bytes) -> None:
        first, *rest = head.decode("latin-1").split("\r\n")
        version, _, status = first.partition(" ")
        if not version.startswith("HTTP/1."):
            raise ValueError(first[:80])
        headers = {
            name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)
        }
        self._chunked = headers.get("transfer-encoding", "").lower() == "chunked"
        length = headers.get("content-length")
        self._left = 0 if self._chunked else int(length) if length is not None else None
        self._gap, self._trailing = 0, False
        self.got = Head(int(status[:3]), headers)
        self.stays = version != "HTTP/1.0" and headers.get("connection", "").lower() != "close"
        if self.got.status in _BODILESS or (not self._chunked and self._left == 0):
            self.whole = True

    def _take_plain(self, data: bytes) -> None:
        if self._left is not None:
            data = data[: self._left]
            self._left -= len(data)
        self._put(data)
        if self._left == 0:
            self.whole = True

    def _take_chunks(self, data: bytes) -> None:
        at, size = 0, len(data)
        while at < size:
            if self._left:
                part = data[at : at + self._left]
                self._put(part)
                at += len(part)
                self._left -= len(part)
                self._gap = 0 if self._left else 2
                continue
            if self._gap:
                step = min(self._gap, size - at)
                at, self._gap = at + step, self._gap - step
                continue
            end = data.find(b"\r\n", at)
            if end < 0:
                if size - at > 1024:
                    raise ValueError("a chunk has no size")
                self._buffer = data[at:]
                return
            line, at = data[at:end], end + 2
            if self._trailing:  # lines after the last chunk, up to an empty one
                if not line:
                    self.whole = True
                    return
                continue
            self._left = int(line.partition(b";")[0], 16)
            self._trailing = self._left == 0

    def _put(self, data: bytes) -> None:
        if data:
            self.parts.append(data)
            self.waiting += len(data)
