"""For tests: an HTTP server on loopback that answers each request as a script says, and remembers what it was asked."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True)
class Asked:
    """One request as it came in."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Any


@dataclass(frozen=True)
class Reply:
    """What is answered; DROP instead of a body: the connection is cut once the request was carried out."""

    status: int = 200
    body: Any = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


DROP = object()
Script = Callable[[Asked], Reply]


class Scripted:
    """A running server: its address, its script, which may be exchanged, and what it was asked."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.asked: list[Asked] = []
        self.url = ""

    def answers(self, *replies: Reply) -> None:
        """Answers one after the other, the last one again and again."""
        left = list(replies)
        self.script = lambda asked: left.pop(0) if len(left) > 1 else left[0]

    @property
    def calls(self) -> Sequence[str]:
        return [f"{one.method} {one.path}" for one in self.asked]


@contextmanager
def scripted(script: Script | None = None) -> Iterator[Scripted]:
    """Serves while the block runs."""
    handle = Scripted(script or (lambda asked: Reply(404)))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # else what follows the headers waits for 40 ms

        def _any(self) -> None:
            parts = urlsplit(self.path)
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            query = {key: values[0] for key, values in parse_qs(parts.query).items()}
            several = self.headers.get_content_maintype() == "multipart"
            body = content if several else json.loads(content) if content else None
            asked = Asked(self.command, parts.path, query, dict(self.headers), body)
            handle.asked.append(asked)
            reply = handle.script(asked)
            if reply.body is DROP:
                self.close_connection = True
                with suppress(OSError):
                    self.connection.shutdown(socket.SHUT_RDWR)
                return
            body = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
            self.send_response_only(reply.status)
            for name, value in {"Content-Length": str(len(body)), **reply.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PATCH = do_DELETE = _any

        def log_message(self, *words: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    handle.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield handle
    finally:
        server.shutdown()
        server.server_close()


def status(code: int, reason: str, message: str, name: str = "", **details: Any) -> Reply:
    """Returns an error as API servers put it."""
    more = {**({"name": name} if name else {}), **details}
    return Reply(
        code,
        {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "message": message,
            "reason": reason,
            "details": more,
            "code": code,
        },
    )
