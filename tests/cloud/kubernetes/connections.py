"""The API server's connections: any of them can be cut, and all of them while it is down."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, MutableMapping

from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol


class Connections:
    """The open ones, by the client's address."""

    def __init__(self) -> None:
        """Starts with none."""
        self._open: MutableMapping[tuple[str, int], asyncio.Transport] = {}
        self.streams = 0
        """How many watches and logs are being sent."""

    def protocol(self) -> type[H11Protocol]:
        """Returns uvicorn's protocol, which also enters its connections here."""
        entered = self._open

        class Entered(H11Protocol):
            def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
                super().connection_made(transport)
                if self.client:
                    entered[self.client] = transport

            def connection_lost(self, exc: Exception | None) -> None:
                if self.client:
                    entered.pop(self.client, None)
                super().connection_lost(exc)

        return Entered

    def abort(self, client: tuple[str, int] | None) -> Response:
        """Cuts a connection in the middle of what it is doing; returns a response that sends nothing."""
        if client in self._open:
            self._open[client].abort()
        return _Silence()

    def abort_all(self) -> None:
        """Cuts all of them."""
        for transport in list(self._open.values()):
            transport.abort()

    async def counted(self, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Passes a stream's pieces on, and knows that it is open."""
        self.streams += 1
        try:
            async for one in lines:
                yield one
        finally:
            self.streams -= 1


class _Silence(Response):
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends nothing: nobody listens any more."""
        del scope, receive, send
