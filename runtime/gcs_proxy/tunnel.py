"""Bytes between two connections, both ways, as they are."""

from __future__ import annotations

import contextlib
import select
import socket

_READ_BYTES = 64 << 10


class _Way:
    """One direction: what was read there and not written here yet."""

    def __init__(self, source: socket.socket, sink: socket.socket) -> None:
        self.source, self.sink = source, sink
        self.data, self.over = bytearray(), False

    def move(self) -> None:
        """Reads or writes what goes at once. Raises OSError."""
        with contextlib.suppress(BlockingIOError):
            if not self.data and not self.over:
                self.data += self.source.recv(_READ_BYTES)
                if not self.data:
                    self.over = True
                    self.sink.shutdown(socket.SHUT_WR)
            if self.data:
                del self.data[: self.sink.send(self.data)]


def tunnel(one: socket.socket, other: socket.socket, silence_s: float) -> None:
    """Carries bytes until both sides are done, one breaks off, or both are silent for long."""
    ways = (_Way(one, other), _Way(other, one))
    for sock in (one, other):
        sock.setblocking(False)
    with contextlib.suppress(OSError):
        while not all(way.over for way in ways):
            poller = select.poll()
            for sock in (one, other):
                events = 0
                for way in ways:
                    if way.data and way.sink is sock:
                        events |= select.POLLOUT
                    elif not way.data and not way.over and way.source is sock:
                        events |= select.POLLIN
                if events:
                    poller.register(sock, events)
            if not poller.poll(silence_s * 1000):
                return
            for way in ways:
                way.move()
