"""Requests to the store: connections that are kept, TLS that is verified, bodies sent as they come."""

from __future__ import annotations

import socket
import ssl
import threading
from dataclasses import dataclass
from urllib.parse import urlsplit

from runtime.contract.errors import BadInput
from runtime.gcs_proxy.login import Login
from runtime.gcs_proxy.messages import Request, Response, receive_response, request_head
from runtime.gcs_proxy.refusal import Refused, unavailable
from runtime.gcs_proxy.wire import BadMessage, Closed, Headers, Wire

GOOGLE = "https://storage.googleapis.com"
CONNECT_S, SILENCE_S = 20.0, 120.0
"""A store that says nothing for so long is given up. Not earlier: rewrites, and the ends of large uploads, take it tens
of seconds, and TensorStore would wait without limit. google-cloud-storage goes by itself after 60 seconds.
"""
_KEPT = 64


@dataclass(frozen=True)
class Origin:
    """Where a store is."""

    scheme: str
    host: str
    port: int

    @property
    def authority(self) -> str:
        """What stands in Host."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == {"http": 80, "https": 443}[self.scheme] else f"{host}:{self.port}"


def parse_origin(url: str) -> Origin:
    """Returns the origin of a URL. Raises BadInput."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise BadInput(f"{url!r} is no address of a store: {error}") from error
    if "@" in parts.netloc:
        raise BadInput(
            "the address of a store has a user's name or a password in it, which nobody asks for",
            fix=f"write it like {GOOGLE}",
        )
    if (
        parts.scheme not in ("http", "https")
        or not parts.hostname
        or parts.path not in ("", "/")
        or parts.query
    ):
        raise BadInput(f"{url!r} is no address of a store", fix=f"write it like {GOOGLE}")
    return Origin(parts.scheme, parts.hostname, port or {"http": 80, "https": 443}[parts.scheme])


class Exchange:
    """One request to the store, of which the body may still be sent. Closes its connection unless all went well."""

    def __init__(self, pool: Pool, wire: Wire, request: Request, chunked: bool) -> None:
        self._pool, self._wire, self._request, self._chunked = pool, wire, request, chunked
        head, self._parser = request_head(request)
        self._done = self._reusable = False
        self.response: Response | None = None
        try:
            wire.send(head)
        except Closed:
            self.close()
            raise

    def send(self, data: bytes | memoryview) -> bool:
        """Sends a piece of the body; False when the store answered or broke off: then it is not to be sent more."""
        if self._wire.readable():
            return False
        try:
            if self._chunked:
                self._wire.send(f"{len(data):x}\r\n".encode())
            self._wire.send(data)
            if self._chunked:
                self._wire.send(b"\r\n")
        except Closed:
            return False
        return True

    def answer(self, *, whole: bool = True) -> Response:
        """Returns the head of the response; `whole`: all of the body was sent. Raises Refused (503)."""
        try:
            if whole and self._chunked:
                self._wire.send(b"0\r\n\r\n")
        except Closed:
            pass  # it may have answered nevertheless
        try:
            self.response = receive_response(self._wire, self._parser, self._request.method)
        except (BadMessage, Closed) as error:
            self.close()
            raise unavailable(f"the store broke off: {error}") from error
        self._reusable = whole
        return self.response

    def close(self) -> None:
        """Ends it. The connection is kept for others where nothing is left on it."""
        if self._done:
            return
        self._done = True
        answered = self.response
        if answered and self._reusable and answered.body.ended and _keeps(answered):
            self._pool.keep(self._wire)
        else:
            self._wire.close()

    def __enter__(self) -> Exchange:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _keeps(response: Response) -> bool:
    return "close" not in response.headers.get("connection").lower()


class Pool:
    """Connections to one store."""

    def __init__(
        self,
        origin: Origin,
        ca_file: str | None = None,
        tls: ssl.SSLContext | None = None,
        login: Login | None = None,
    ) -> None:
        """`ca_file`: who is trusted besides the system's authorities; `tls` knows that already. `login`: whose token
        requests without one get. Raises BadInput.
        """
        self.origin, self._login = origin, login
        self._lock, self._idle = threading.Lock(), list[Wire]()
        self._tls = tls
        if origin.scheme == "https" and tls is None:
            self._tls = ssl.create_default_context()
            if ca_file:
                try:
                    self._tls.load_verify_locations(ca_file)
                except (OSError, ssl.SSLError) as error:
                    raise BadInput(f"{ca_file} holds no certificates: {error}") from error

    def at(self, host: str) -> Pool:
        """Returns one to another host, over TLS, which trusts the same authorities."""
        return Pool(Origin("https", host, 443), tls=self._tls)

    def open(
        self, method: str, target: str, headers: Headers, length: int | None = 0, *, chunked: bool = False
    ) -> Exchange:
        """Begins a request whose body has `length` bytes (None: no body at all). Raises Refused (503)."""
        given = self._login.added(target, headers) if self._login else headers
        fields = [("Host", self.origin.authority), *given.end_to_end()]
        if chunked:
            fields.append(("Transfer-Encoding", "chunked"))
        elif length is not None and (length or method not in ("GET", "HEAD", "DELETE", "OPTIONS")):
            fields.append(("Content-Length", str(length)))
        request = Request(method, target, Headers(fields))
        while True:
            wire, kept = self._wire()
            try:
                return Exchange(self, wire, request, chunked)
            except Closed as error:
                if not kept:
                    raise unavailable(f"the store broke off: {error}") from error

    def ask(
        self, method: str, target: str, headers: Headers, body: bytes = b"", limit: int = 16 << 20
    ) -> Answer:
        """Sends a small request and returns the whole response. Raises Refused (503)."""
        for last in (False, True):
            with self.open(method, target, headers, len(body)) as exchange:
                try:
                    if body:
                        exchange.send(body)
                    response = exchange.answer()
                    return Answer(
                        response.status, response.reason, response.headers, response.body.read_all(limit)
                    )
                except (Refused, Closed, BadMessage) as error:
                    # A kept connection may end just when it is used again. Reading twice does no harm.
                    if last or method not in ("GET", "HEAD"):
                        raise unavailable(f"{error}") from error
        raise AssertionError

    def keep(self, wire: Wire) -> None:
        """Takes a connection back."""
        with self._lock:
            if len(self._idle) < _KEPT:
                self._idle.append(wire)
                return
        wire.close()

    def _wire(self) -> tuple[Wire, bool]:
        while True:
            with self._lock:
                wire = self._idle.pop() if self._idle else None
            if wire is None:
                return self._connected(), False
            if not wire.readable():  # whatever came on an idle connection is its end
                return wire, True
            wire.close()

    def _connected(self) -> Wire:
        origin = self.origin
        try:
            sock = socket.create_connection((origin.host, origin.port), CONNECT_S)
        except OSError as error:
            raise unavailable(f"the store {origin.authority} cannot be reached: {error}") from error
        try:
            sock.settimeout(SILENCE_S)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls:
                sock = self._tls.wrap_socket(sock, server_hostname=origin.host)
        except OSError as error:
            sock.close()
            raise unavailable(f"the store {origin.authority} is not to be trusted: {error}") from error
        return Wire(sock)


@dataclass
class Answer:
    """A response with its whole body."""

    status: int
    reason: str
    headers: Headers
    content: bytes

    @property
    def ok(self) -> bool:
        """Tells whether it is 2xx."""
        return 200 <= self.status < 300
