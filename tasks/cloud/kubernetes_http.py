"""HTTP for following: GETs whose answers are read as they come, a thousand at a time, for a few microseconds a piece.

Measured with 1,000 streams of 10 lines a second each: httpx takes 100 µs of processor time a line, which is a whole
core; this takes a fifth. It knows what API servers speak: HTTP/1.1, answers in chunks, of a length, or up to the end.
"""

from __future__ import annotations

import asyncio
import ssl
from asyncio import sslproto
from base64 import b64encode
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

_LONGEST_HEAD = 64 << 10
_MUCH = 256 << 10
"""Bytes that may wait to be taken; with more the other end is made to wait, by TCP."""


class Broken(Exception):
    """The connection ended or failed before the answer was whole, or the answer is no HTTP."""


class Silent(Broken):
    """Nothing came for so long that we ended the connection."""


class Unconnected(Broken):
    """No connection came about: nothing was asked. `__cause__` says why."""


@dataclass(frozen=True)
class Head:
    """What an answer begins with; names of headers in lower case."""

    status: int
    headers: Mapping[str, str]


class Connection(asyncio.Protocol):
    """One connection: one answer after the other."""

    def __init__(self) -> None:
        self.reusable = False
        """Whether the last answer was read to its end and the connection stays open."""
        self.heard_at = 0.0
        """When something came last, by the loop's clock."""
        self._transport: asyncio.Transport | None = None
        self._buffer = b""
        self._parts: list[bytes] = []
        self._waiting = 0
        self._head: Head | None = None
        self._left: int | None = 0  # bytes of this chunk or answer; None: up to the end of the connection
        self._chunked = False
        self._stays = True
        self._gap = 0  # bytes between chunks that say nothing
        self._trailing = False
        self._whole = True
        self._lost: Exception | None = None
        self._closed = False
        self._paused = False
        self._news: asyncio.Future[None] | None = None

    # What its user calls

    def ask(self, target: str, headers: Mapping[str, str]) -> None:
        """Asks for a path. Raises Broken."""
        self._head, self._whole, self.reusable = None, False, False
        self._parts, self._waiting = [], 0
        self.heard_at = asyncio.get_running_loop().time()
        lines = [f"GET {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        if self._transport is None or self._closed:
            raise Broken("the connection was closed")
        self._transport.write(("\r\n".join(lines) + "\r\n\r\n").encode())

    async def head(self) -> Head:
        """Returns the head of the answer, once it is there: some servers send it with the first of what follows.

        Raises Broken.
        """
        while self._head is None:
            await self._more()
        return self._head

    async def body(self) -> AsyncIterator[bytes]:
        """Yields the answer's bytes as they come. Raises Broken when it ends too early."""
        while True:
            if self._parts:
                data = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
                self._parts, self._waiting = [], 0
                if self._paused and self._transport is not None:
                    self._paused = False
                    self._transport.resume_reading()
                yield data
            elif self._whole:
                return
            else:
                await self._more()

    def close(self, silence: str = "") -> None:
        """Ends the connection at once. `silence`: for that, which whoever reads from it is told by Silent."""
        self._closed, self.reusable = True, False
        if silence and self._lost is None:
            self._lost = Silent(silence)
        if self._transport is not None:
            self._transport.abort()

    async def _more(self) -> None:
        """Waits until something has come."""
        if self._lost is not None:
            raise self._lost
        self._news = asyncio.get_running_loop().create_future()
        await self._news
        if self._lost is not None and not self._parts and not self._whole:
            raise self._lost

    # What the loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self.heard_at = asyncio.get_running_loop().time()
        try:
            self._take(self._buffer + data if self._buffer else data)
        except ValueError as error:
            self._lost = Broken(f"the answer is no HTTP: {error}")
            self.close()
        if self._waiting > _MUCH and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        self._tell()

    def eof_received(self) -> None:
        return None  # the connection is closed, and connection_lost follows

    def connection_lost(self, error: Exception | None) -> None:
        self._closed, self.reusable = True, False
        if self._head is not None and self._left is None and error is None:
            self._whole = True
        elif self._lost is None:
            self._lost = Broken(f"the connection broke ({error or 'it was closed'})")
            self._lost.__cause__ = error
        self._tell()

    def _tell(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    def _take(self, data: bytes) -> None:
        if self._head is None:
            end = data.find(b"\r\n\r\n")
            if end < 0:
                if len(data) > _LONGEST_HEAD:
                    raise ValueError("its head has no end")
                self._buffer = data
                return
            self._begin(data[:end])
            data = data[end + 4 :]
        self._buffer = b""
        if self._whole:
            return
        if self._chunked:
            self._take_chunks(data)
        else:
            self._take_plain(data)

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
        self._head = Head(int(status[:3]), headers)
        self._stays = version != "HTTP/1.0" and headers.get("connection", "").lower() != "close"
        if not self._chunked and self._left == 0:
            self._end()

    def _take_plain(self, data: bytes) -> None:
        if self._left is not None:
            data = data[: self._left]
            self._left -= len(data)
        self._put(data)
        if self._left == 0:
            self._end()

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
                    self._end()
                    return
                continue
            self._left = int(line.partition(b";")[0], 16)
            self._trailing = self._left == 0

    def _put(self, data: bytes) -> None:
        if data:
            self._parts.append(data)
            self._waiting += len(data)

    def _end(self) -> None:
        self._whole = True
        self.reusable = self._stays and not self._closed


class _Tls(sslproto.SSLProtocol):
    """TLS with a buffer of 16 KiB, its longest record: a thousand of asyncio's 256 KiB are more than all the rest."""

    max_size = 16 << 10


async def connect(
    server: str,
    trust: ssl.SSLContext | None,
    server_name: str = "",
    proxy: str | None = None,
    options: Sequence[tuple[int, int, int]] = (),
) -> Connection:
    """Returns a new connection to the server of a URL. Raises Unconnected, its cause what went wrong."""
    parts = urlsplit(server)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    loop, connection = asyncio.get_running_loop(), Connection()
    secured: asyncio.Future[None] = loop.create_future()
    protocol: asyncio.BaseProtocol = connection
    if trust is not None:
        protocol = _Tls(loop, connection, trust, secured, server_hostname=server_name or host)
    else:
        secured.set_result(None)
    transport: asyncio.BaseTransport | None = None
    try:
        if proxy:
            transport = await _tunnel(proxy, host, port)
            transport.set_protocol(protocol)
            protocol.connection_made(transport)
            transport.resume_reading()
        else:
            transport, _ = await loop.create_connection(lambda: protocol, host, port)
        await secured
        for option in options:
            transport.get_extra_info("socket").setsockopt(*option)
    except OSError as error:  # ssl.SSLError is one
        if transport is not None:
            transport.close()
        raise Unconnected(str(error) or type(error).__name__) from error
    except asyncio.CancelledError:
        if transport is not None:
            transport.close()
        raise
    return connection


async def _tunnel(proxy: str, host: str, port: int) -> asyncio.Transport:
    """Returns a connection through a proxy, which was asked to connect; its reading is paused."""
    parts = urlsplit(proxy)
    if parts.scheme != "http":
        raise Unconnected(f"a proxy of the kind {parts.scheme}: is none that can be followed through")
    loop = asyncio.get_running_loop()
    transport, knock = await loop.create_connection(_Knock, parts.hostname or "", parts.port or 80)
    login = b64encode(f"{parts.username}:{parts.password or ''}".encode()).decode() if parts.username else ""
    lines = [f"CONNECT {host}:{port} HTTP/1.1", f"Host: {host}:{port}"]
    lines += [f"Proxy-Authorization: Basic {login}"] if login else []
    transport.write(("\r\n".join(lines) + "\r\n\r\n").encode())
    try:
        answer = (await knock.answer).splitlines()[0].decode("latin-1")
        if answer.split(" ")[1:2] != ["200"]:
            raise Unconnected(f"the proxy refused: {answer}")
    except BaseException:
        transport.abort()
        raise
    return transport


class _Knock(asyncio.Protocol):
    """Takes what a proxy answers before what comes is the server's."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._begin = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._begin += data
        if self._transport is not None and b"\r\n\r\n" in self._begin and not self.answer.done():
            self._transport.pause_reading()
            self.answer.set_result(self._begin)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.answer.done():
            self.answer.set_exception(Unconnected("the proxy closed the connection"))
