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
from urllib.parse import urlsplit

from tasks.cloud.kubernetes_answer import Answer, Head

_MUCH = 256 << 10
"""Bytes that may wait to be taken; with more the other end is made to wait, by TCP."""


class Broken(Exception):
    """The connection ended or failed before the answer was whole, or the answer is no HTTP."""


class Silent(Broken):
    """Nothing came for so long that we ended the connection."""


class Unconnected(Broken):
    """No connection came about: nothing was asked. `__cause__` says why."""


class Connection(asyncio.Protocol):
    """One connection: one answer after the other."""

    def __init__(self) -> None:
        self.reusable = False
        """Whether the last answer was read to its end and the connection stays open."""
        self.heard_at = 0.0
        """When something came last, or was asked for since, by the loop's clock."""
        self.came_at = 0.0
        """When something came last."""
        self.silent_for: float | None = None
        """How long nothing may come, seconds; None: as long as on others."""
        self._transport: asyncio.Transport | None = None
        self._answer = Answer()
        self._lost: Exception | None = None
        self._closed = False
        self._paused = False
        self._news: asyncio.Future[None] | None = None

    # What its user calls

    def ask(self, target: str, headers: Mapping[str, str]) -> None:
        """Asks for a path. Raises Broken."""
        self.reusable = False
        self._answer.expect()
        self.heard_at = asyncio.get_running_loop().time()
        lines = [f"GET {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        if self._transport is None or self._closed:
            raise Broken("the connection was closed")
        self._transport.write(("\r\n".join(lines) + "\r\n\r\n").encode())

    async def head(self) -> Head:
        """Returns the head of the answer, once it is there: some servers send it with the first of what follows.

        Raises Broken.
        """
        while self._answer.got is None:
            await self._more()
        return self._answer.got

    async def body(self) -> AsyncIterator[bytes]:
        """Yields the answer's bytes as they come. Raises Broken when it ends too early."""
        answer = self._answer
        while True:
            if answer.parts:
                data = answer.taken()
                if self._paused and self._transport is not None:
                    self._paused = False
                    self._transport.resume_reading()
                yield data
            elif answer.whole:
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
        if self._lost is not None and not self._answer.parts and not self._answer.whole:
            raise self._lost

    # What the loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        self.heard_at = self.came_at = asyncio.get_running_loop().time()
        answer = self._answer
        try:
            answer.take(data)
        except ValueError as error:
            self._lost = Broken(f"the answer is no HTTP: {error}")
            self.close()
        self.reusable = answer.whole and answer.stays and not self._closed
        if answer.waiting > _MUCH and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        self._tell()

    def eof_received(self) -> None:
        """See asyncio.Protocol."""
        return  # the connection is closed, and connection_lost follows

    def connection_lost(self, error: Exception | None) -> None:
        """See asyncio.Protocol."""
        self._closed, self.reusable = True, False
        at_its_end = error is None and self._answer.closed()
        if not at_its_end and self._lost is None:
            self._lost = Broken(f"the connection broke ({error or 'it was closed'})")
            self._lost.__cause__ = error
        self._tell()

    def _tell(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)


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
        """See asyncio.Protocol."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        self._begin += data
        if self._transport is not None and b"\r\n\r\n" in self._begin and not self.answer.done():
            self._transport.pause_reading()
            self.answer.set_result(self._begin)

    def connection_lost(self, error: Exception | None) -> None:
        """See asyncio.Protocol."""
        if not self.answer.done():
            self.answer.set_exception(Unconnected("the proxy closed the connection"))
