"""A port that is served, can be closed with all its connections, and opened again."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import uvicorn
from starlette.applications import Starlette

from tests.cloud.kubernetes.connections import Connections


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leaves signals to the process that has two of these."""
        yield


class Port:
    """One application at one port of this machine."""

    def __init__(
        self, app: Starlette, port: int, connections: Connections, *, certificates: str = ""
    ) -> None:
        """Port 0 takes a free one, and keeps it; `certificates` is a folder with server.pem and server.key."""
        self._app, self._connections, self._certificates = app, connections, certificates
        self._number = port
        self._server: _Server | None = None
        self._kept: socket.socket | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def opened(self) -> bool:
        """Whether it can be reached."""
        return bool(self._server and self._server.started)

    @property
    def url(self) -> str:
        """Where it is reached."""
        return f"http{'s' if self._certificates else ''}://127.0.0.1:{self._number}"

    async def open(self) -> None:
        """Starts serving."""
        listener = self._bound()
        files = Path(self._certificates) if self._certificates else None
        config = uvicorn.Config(
            self._app,
            http=self._connections.protocol(),
            log_level="error",
            access_log=False,
            lifespan="off",
            date_header=False,  # the API says what time it is in the cluster
            backlog=1024,
            timeout_keep_alive=60,
            ssl_certfile=files / "server.pem" if files else None,
            ssl_keyfile=files / "server.key" if files else None,
        )
        self._server = _Server(config)
        self._task = asyncio.create_task(self._server.serve(sockets=[listener]))
        while not self._server.started and not self._task.done():
            await asyncio.sleep(0.002)

    async def close(self) -> None:
        """Stops serving, and cuts every connection."""
        if self._server is None or self._task is None:
            return
        self._server.should_exit = self._server.force_exit = True
        for one in self._server.servers:
            one.close()
        self._connections.abort_all()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        self._server = None
        self._kept = self._bound()  # bound and deaf: it refuses, and nobody else gets the number meanwhile

    def _bound(self) -> socket.socket:
        if (kept := self._kept) is not None:
            self._kept = None
            return kept
        # The protocol is named, else asyncio lets Nagle hold back the second half of an answer for 40 ms, as no API
        # server does.
        bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(("127.0.0.1", self._number))
        self._number = bound.getsockname()[1]
        return bound
