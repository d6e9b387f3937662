"""A socket and the headers of the messages on it: what is read is kept until it is used."""

from __future__ import annotations

import contextlib
import functools
import re
import select
import socket
import ssl
import time
from collections.abc import Iterable, Iterator

from runtime.gcs_proxy.neighbours import is_of_this_user

HEAD_LIMIT = 64 << 10
"""The longest head that is read; more is an attack, or no HTTP."""
_READ_BYTES = 64 << 10
_HEAD_S = 60.0
"""In so long a time a head that has begun has to be whole."""
_LINGER_S, _LINGER_BYTES = 5.0, 64 << 20
_BAD_LINE_END = re.compile(rb"(?<!\r)\n|\r(?!\n)|\r\n[ \t]")
"""Half a line end, or a line that goes on in the next one: servers do not agree on what these mean."""
HOP_BY_HOP = frozenset(
    (
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "content-length",
        "host",
        "expect",
        "http2-settings",
    )
)

Fields = list[tuple[str, str]]


class BadMessage(Exception):
    """The other side does not speak HTTP/1.1 as it should."""


class Closed(Exception):
    """The other side ended the connection, or was silent for too long, where more had to come."""


class Headers:
    """Fields of a message in their order; names are told apart without regard to case."""

    def __init__(self, fields: Iterable[tuple[str, str]] = ()) -> None:
        self.fields: Fields = list(fields)

    def get(self, name: str, default: str = "") -> str:
        """Returns the first value of a field."""
        return next((value for key, value in self.fields if key.lower() == name), default)

    def all(self, name: str) -> list[str]:
        """Returns all values of a field."""
        return [value for key, value in self.fields if key.lower() == name]

    def has(self, name: str) -> bool:
        """Tells whether there is such a field."""
        return any(key.lower() == name for key, _ in self.fields)

    def without(self, names: Iterable[str]) -> Headers:
        """Returns the others."""
        dropped = frozenset(names)
        return Headers((key, value) for key, value in self.fields if key.lower() not in dropped)

    def end_to_end(self) -> Headers:
        """Returns those that are not about this connection, the body's length included."""
        named = {name.strip().lower() for value in self.all("connection") for name in value.split(",")}
        return self.without(HOP_BY_HOP | named)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self.fields)


class Wire:
    """A socket and what was read from it and not used yet."""

    moved = 0
    """How many bytes went out and came."""
    waiting = False
    """Whether the other side is waited for now."""
    _cut_for = ""
    _until: float | None = None
    """When a head that has begun has to be whole."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._pending = bytearray()

    def send(self, data: bytes | memoryview) -> None:
        """Sends all of it. Raises Closed."""
        left = memoryview(data)
        self.waiting = True
        try:
            while left:  # not at once: how far it is tells whether the other side stands still
                gone = self.sock.send(left)
                self.moved += gone
                left = left[gone:]
        except OSError as error:
            raise Closed(self._cut_for or f"the connection broke while sending: {error}") from error
        finally:
            self.waiting = False

    def read_into(self, view: memoryview) -> int:
        """Fills the beginning of a buffer; returns how many bytes came, 0 at the end. Raises Closed."""
        if self._pending:
            taken = min(len(view), len(self._pending))
            view[:taken] = self._pending[:taken]
            del self._pending[:taken]
            return taken
        self.waiting = True
        try:
            came = self.sock.recv_into(view)
        except OSError as error:
            raise Closed(self._cut_for or f"the connection broke while receiving: {error}") from error
        finally:
            self.waiting = False
        if not came and self._cut_for:
            raise Closed(self._cut_for)
        self.moved += came
        return came

    def wait(self) -> None:
        """Returns once there is something to read, or the other side ended. Raises Closed."""
        if self._pending or (isinstance(self.sock, ssl.SSLSocket) and self.sock.pending()):
            return
        poller, patience = select.poll(), self.sock.gettimeout()
        if self._until is not None:
            left = max(0.0, self._until - time.monotonic())
            patience = left if patience is None else min(left, patience)
        poller.register(self.sock, select.POLLIN)
        self.waiting = True
        try:
            if not poller.poll(None if patience is None else patience * 1000):
                raise Closed("nothing came for too long")
        finally:
            self.waiting = False

    def read_some(self) -> bytes:
        """Returns some bytes, none at the end. Raises Closed."""
        self.wait()  # who sends nothing takes no memory
        buffer = bytearray(_READ_BYTES)
        return bytes(buffer[: self.read_into(memoryview(buffer))])

    def put_back(self, data: bytes) -> None:
        """Gives back what was read too much."""
        self._pending[:0] = data

    def read_head(self) -> bytes | None:
        """Returns a head with its empty line; None where the other side ended instead. Raises BadMessage, Closed."""
        try:
            return self._head()
        finally:
            self._until = None

    def _head(self) -> bytes | None:
        head = bytearray()
        while (end := head.find(b"\r\n\r\n")) < 0:
            if len(head) > HEAD_LIMIT:
                raise BadMessage("the head of the message is too long")
            if b"\n\n" in head:
                break
            more = self.read_some()
            if not more and head:
                raise Closed("the connection ended within a head")
            if not more:
                return None
            head += more
            self._until = self._until or time.monotonic() + _HEAD_S
            if time.monotonic() > self._until:
                raise Closed("a head does not come to its end")
            while head.startswith(b"\r\n"):  # HTTP allows empty lines before a message
                del head[:2]
        if end + 4 > HEAD_LIMIT:
            raise BadMessage("the head of the message is too long")
        if _BAD_LINE_END.search(head[: end + 4] if end >= 0 else head):
            raise BadMessage("a line of the head does not end as HTTP's do")
        self.put_back(bytes(head[end + 4 :]))
        return bytes(head[: end + 4])

    def readable(self) -> bool:
        """Tells whether the other side sent something, or ended."""
        if self._pending:
            return True
        poller = select.poll()  # select knows no descriptors from 1024 on
        poller.register(self.sock, select.POLLIN)
        if not poller.poll(0):
            return False
        if not isinstance(self.sock, ssl.SSLSocket):
            return True
        # What came may be TLS's own: tickets for sessions come behind the handshake.
        patience = self.sock.gettimeout()
        self.sock.settimeout(0)
        try:
            self._pending += self.sock.recv(_READ_BYTES)
        except ssl.SSLWantReadError:
            return False
        except OSError:
            return True
        finally:
            self.sock.settimeout(patience)
        return True

    @functools.cached_property
    def of_this_user(self) -> bool:
        """Whether a program of this process's user has the other end."""
        return is_of_this_user(self.sock)

    @property
    def pending(self) -> bool:
        """Tells whether more was read than was used."""
        return bool(self._pending)

    def cut(self, why: str = "") -> None:
        """Ends the connection for whoever waits on it, in another thread, who is told why. Raises OSError."""
        self._cut_for = why
        # An SSLSocket would go on in plaintext after its own shutdown.
        socket.socket.shutdown(self.sock, socket.SHUT_RDWR)

    def linger(self) -> None:
        """Ends our side, and reads for a while what still comes: closing at once would take our answer away."""
        deadline, left = time.monotonic() + _LINGER_S, _LINGER_BYTES
        try:
            if isinstance(self.sock, ssl.SSLSocket):
                self.sock.settimeout(0)
                with contextlib.suppress(OSError):
                    self.sock.unwrap()  # says that it was all; the other side's answer is not waited for
            socket.socket.shutdown(self.sock, socket.SHUT_WR)
            self.sock.settimeout(_LINGER_S)
            while left > 0 and time.monotonic() < deadline and (data := self.read_some()):
                left -= len(data)
        except (OSError, Closed, ValueError):
            return

    def close(self) -> None:
        """Ends the connection."""
        self.sock.close()
