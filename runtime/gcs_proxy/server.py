"""Listens, reads requests and has them answered, a thread for each connection."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from email.utils import formatdate

from runtime.gcs_proxy.grpc_refusal import refuse_grpc
from runtime.gcs_proxy.messages import Body, NewerHttp, Request, receive_request, response_head
from runtime.gcs_proxy.refusal import Refused, as_json, as_xml, invalid
from runtime.gcs_proxy.routes import Route
from runtime.gcs_proxy.wire import BadMessage, Closed, Headers, Wire

CONNECTIONS = 512
IDLE_S = 300.0
"""How long a connection may be silent, between requests and within one."""
_BODILESS = frozenset((204, 304))
_LEADING = ("alt-svc", "location")
"""By these an answer has its client ask elsewhere, the second one where it is a redirection."""


Answer = Callable[["Client"], None]
Converse = Callable[[Wire, Answer], None]


class Client:
    """One request of a client, and the answer it gets."""

    def __init__(self, wire: Wire, request: Request, body: Body) -> None:
        self.wire, self.request, self.body = wire, request, body
        self.status = 0
        """Of the answer; 0 before there is one."""
        self.sent = 0
        self.xml = False
        """Whether errors have the XML API's form."""
        self.scheme = "http"
        self.asked_at = ""
        """Where the client asks, if not here."""
        self.stays = False
        """Whether the answer may not lead elsewhere: who followed it would go past the proxy."""
        self.about: Route | None = None
        """What it is about, once that is known."""
        self.after: Callable[[Wire, Converse], None] | None = None
        """What becomes of the connection once this request is answered."""
        self.keep = request.http_11 and "close" not in request.headers.get("connection").lower()
        if request.headers.get("expect").lower() == "100-continue":
            body.on_first_read = self._continue

    @property
    def origin(self) -> str:
        """Where the client asks, for links that it is to follow."""
        return self.asked_at or f"{self.scheme}://{self.request.headers.get('host')}"

    def answer(
        self, status: int, headers: Iterable[tuple[str, str]], content: bytes, reason: str = ""
    ) -> None:
        """Answers with all there is. Raises Closed."""
        fields = Headers(headers).end_to_end()
        self.begin(status, fields, None if status in _BODILESS else len(content), reason)
        if content and self.request.method != "HEAD":
            self.write(content)

    def begin(
        self, status: int, headers: Iterable[tuple[str, str]], length: int | None, reason: str = ""
    ) -> None:
        """Begins an answer of `length` bytes, all of which are to be written then. Raises Closed."""
        if not self.body.ended:
            self.keep = False  # what was not read of its body would be taken for the next request
        fields = list(headers)
        if self.stays:
            fields = Headers(fields).without(_LEADING if 300 <= status < 400 else _LEADING[:1]).fields
        if length is not None:
            fields.append(("Content-Length", str(length)))
        if not Headers(fields).has("date"):
            fields.append(("Date", formatdate(usegmt=True)))
        if not self.keep:
            fields.append(("Connection", "close"))
        self.status = status
        self.wire.send(response_head(status, reason, fields))

    def write(self, data: bytes | memoryview) -> None:
        """Sends a piece of the answer. Raises Closed."""
        self.wire.send(data)
        self.sent += len(data)

    def refuse(self, refused: Refused) -> None:
        """Answers with an error; where an answer has begun, cuts it: it must not look whole. Raises Closed."""
        if self.status:
            self.keep = False
            raise Closed(f"the answer was cut: {refused.message}")
        content, kind = (
            (as_xml(refused), "application/xml") if self.xml else (as_json(refused), "application/json")
        )
        headers = [
            *refused.headers,
            ("Content-Type", f"{kind}; charset=UTF-8"),
            ("Cache-Control", "no-cache"),
        ]
        # Of an answer to CONNECT, programs show the line alone.
        reason = refused.message if self.request.method == "CONNECT" else ""
        self.answer(refused.status, headers, content, reason)

    def _continue(self) -> None:
        if not self.status:
            self.wire.send(b"HTTP/1.1 100 Continue\r\n\r\n")


@dataclass(frozen=True)
class _Standing:
    """Of an open connection: whether a request on it is being answered, and the thread that serves it."""

    busy: bool
    thread: threading.Thread


class Server:
    """Answers what comes at a listening socket, until it is told to stop."""

    def __init__(self, listener: socket.socket, answer: Answer) -> None:
        """`answer` may raise Refused, which is told to the client."""
        self._listener, self._answer = listener, answer
        self._places = CONNECTIONS
        self._lock, self._open = threading.Condition(), dict[Wire, _Standing]()
        self._gave_way = set[threading.Thread]()
        self._stopping = False
        listener.setblocking(False)
        self._waking, self._wake = socket.socketpair()

    def serve(self) -> None:
        """Accepts connections until `close`."""
        poller = select.poll()
        poller.register(self._listener, select.POLLIN)
        poller.register(self._waking, select.POLLIN)
        while not self._stopping:
            poller.poll()
            try:
                sock, _ = self._listener.accept()
            except BlockingIOError:
                continue  # another process of this port took it
            except OSError:
                if not self._stopping:
                    time.sleep(0.05)  # no file descriptor is free: one of those in use will be
                continue
            if not self._took_place():
                self._turn_away(sock)
                continue
            try:
                threading.Thread(target=self._connection, args=(sock,), daemon=True).start()
            except RuntimeError:  # no thread is to be had
                self._leave_place()
                self._turn_away(sock)
        self._listener.close()

    def stop(self, grace_s: float) -> None:
        """Takes no more connections, and returns when all requests are answered or the time is over."""
        self.close()
        self.wait(grace_s)

    def close(self) -> None:
        """Takes no more connections, and no more requests on those there are."""
        self._stopping = True
        # The socket may be one that other processes listen at, too: it is not to be shut down.
        self._wake.close()
        with self._lock:
            for wire in [wire for wire, standing in self._open.items() if not standing.busy]:
                with contextlib.suppress(OSError):
                    wire.cut()

    def wait(self, grace_s: float) -> None:
        """Returns when all requests are answered, or the time is over."""
        deadline = time.monotonic() + grace_s
        with self._lock:
            while any(one.busy for one in self._open.values()) and (left := deadline - time.monotonic()) > 0:
                self._lock.wait(left)

    def _took_place(self) -> bool:
        """Takes a place for a connection: a free one, or that of the connection that has been silent for longest,
        between requests, which is ended. Returns at once: whoever waits to be accepted waits for nobody's end.
        """
        with self._lock:
            if self._places:
                self._places -= 1
                return True
            silent = next((wire for wire, standing in self._open.items() if not standing.busy), None)
            if silent is None:
                return False
            self._gave_way.add(self._open.pop(silent).thread)
        with contextlib.suppress(OSError):
            silent.cut()
        return True

    def _leave_place(self) -> None:
        """Gives the place of this thread's connection back, unless another connection has it by now."""
        with self._lock:
            thread = threading.current_thread()
            if thread in self._gave_way:
                self._gave_way.remove(thread)
            else:
                self._places += 1

    def _turn_away(self, sock: socket.socket) -> None:
        refused = Refused(503, "backendError", "this proxy serves no more connections at a time")
        content = as_json(refused)
        head = response_head(503, "", [("Content-Length", str(len(content))), ("Connection", "close")])
        with contextlib.suppress(OSError), sock:
            sock.settimeout(1.0)
            sock.sendall(head + content)

    def _connection(self, sock: socket.socket) -> None:
        try:
            with contextlib.suppress(OSError):
                sock.settimeout(IDLE_S)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.converse(Wire(sock), self._answer)
        finally:
            sock.close()
            self._leave_place()

    def converse(self, wire: Wire, answer: Answer) -> None:
        """Has the requests of a connection answered, one after the other, until it ends."""
        try:
            with contextlib.suppress(Closed, OSError):
                while self._one(wire, answer) and not self._stopping:
                    pass
        finally:
            self._forget(wire)
            wire.close()

    def _one(self, wire: Wire, answer: Answer) -> bool:
        """Has one request answered; returns whether there may be another."""
        self._mark(wire, busy=False)
        try:
            came = receive_request(wire)
        except NewerHttp:
            refuse_grpc(wire)
            return False
        except BadMessage as error:
            client = Client(wire, Request("GET", "/", Headers(), http_11=False), Body(None, 0))
            client.refuse(invalid(str(error)))
            wire.linger()
            return False
        if came is None:
            return False
        self._mark(wire, busy=True)
        client = Client(wire, *came)
        try:
            answer(client)
        except Refused as refused:
            client.after = None
            client.refuse(refused)
        except BadMessage as error:
            client.after = None
            client.refuse(invalid(str(error)))
        if client.after:
            self._forget(wire)
            client.after(wire, self.converse)
            return False
        if not client.keep:
            wire.linger()
        return client.keep

    def _forget(self, wire: Wire) -> None:
        with self._lock:
            self._open.pop(wire, None)
            self._lock.notify_all()

    def _mark(self, wire: Wire, *, busy: bool) -> None:
        with self._lock:
            thread = threading.current_thread()
            if thread in self._gave_way:  # what it has read by now is not begun
                raise Closed("the connection gave way to another one")
            self._open.pop(wire, None)  # the last one to change is the last in the order
            self._open[wire] = _Standing(busy, thread)
            self._lock.notify_all()
