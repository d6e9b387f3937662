"""HTTP/1.1 messages: heads are read and written by h11, strictly; bodies of known length go past it, into buffers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import h11

from runtime.gcs_proxy.wire import HEAD_LIMIT, BadMessage, Closed, Headers, Wire

_READ_BYTES = 64 << 10
_GOING_ON = 16
"""So many answers of 1xx may come before one that says something: each may come just before patience ends."""


class NewerHttp(BadMessage):
    """The other side speaks HTTP/2, and has sent the first half of its greeting."""


@dataclass
class Request:
    """The head of a request."""

    method: str
    target: str
    headers: Headers
    http_11: bool = True


@dataclass
class Response:
    """The head of a response, and its body."""

    status: int
    reason: str
    headers: Headers
    body: Body = field(default_factory=lambda: Body(None, 0))


class Body:
    """The body of a message as it comes: `left` bytes more, or None where only its end will tell."""

    def __init__(self, wire: Wire | None, length: int | None, chunked: h11.Connection | None = None) -> None:
        self._wire, self.left, self._chunked = wire, length, chunked
        self._data = bytearray()
        self.ended = length == 0
        self.on_first_read: Callable[[], None] | None = None

    def wait(self) -> None:
        """Returns once its first bytes are there, or it ended. Raises Closed.

        Who has to be told to go on has sent none: that it is told when it is read.
        """
        if self._wire and not self.ended and not self.on_first_read:
            self._wire.wait()

    def read_into(self, view: memoryview) -> int:
        """Fills the beginning of a buffer; returns how many bytes came, 0 at the body's end. Raises Closed."""
        if self.ended or not view:
            return 0
        if self.on_first_read:
            self.on_first_read()
            self.on_first_read = None
        if self._chunked is not None:
            return self._from_chunks(view)
        assert self._wire is not None
        wanted = len(view) if self.left is None else min(len(view), self.left)
        came = self._wire.read_into(view[:wanted])
        if self.left is None:
            self.ended = not came
        elif not came:
            raise Closed(f"the connection ended {self.left} bytes before the end of a body")
        else:
            self.left -= came
            self.ended = self.left == 0
        return came

    def fill(self, view: memoryview) -> int:
        """Fills a buffer as far as the body goes; returns how many bytes came."""
        filled = 0
        while filled < len(view) and (came := self.read_into(view[filled:])):
            filled += came
        return filled

    def read_all(self, limit: int) -> bytes:
        """Returns all of it. Raises BadMessage where it has more than `limit` bytes."""
        data, buffer = bytearray(), memoryview(bytearray(_READ_BYTES))
        while came := self.read_into(buffer):
            data += buffer[:came]
            if len(data) > limit:
                raise BadMessage(f"a body has more than {limit} bytes where less was expected")
        return bytes(data)

    def _from_chunks(self, view: memoryview) -> int:
        assert self._chunked is not None and self._wire is not None
        while not self._data:
            try:
                event = self._chunked.next_event()
            except h11.RemoteProtocolError as error:
                raise BadMessage("a chunk of the body is not right") from error
            if event is h11.NEED_DATA:
                more = self._wire.read_some()
                if not more:
                    raise Closed("the connection ended within a body")
                self._chunked.receive_data(more)
            elif isinstance(event, h11.Data):
                self._data += event.data
            elif isinstance(event, h11.EndOfMessage):
                self._wire.put_back(self._chunked.trailing_data[0])
                self.ended = True
                return 0
            else:
                raise Closed("the connection ended within a body")
        taken = min(len(view), len(self._data))
        view[:taken] = self._data[:taken]
        del self._data[:taken]
        return taken


def receive_request(wire: Wire) -> tuple[Request, Body] | None:
    """Returns the next request; None where there is none any more. Raises BadMessage, Closed."""
    head = wire.read_head()
    if head is None:
        return None
    if head == b"PRI * HTTP/2.0\r\n\r\n":
        raise NewerHttp("this is HTTP/2, which gRPC speaks")
    parser = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_LIMIT)
    event = _parsed(parser, head)
    if not isinstance(event, h11.Request):
        raise BadMessage("this is no request")
    headers = _headers(event)
    length = _framing(headers, event.http_version)
    request = Request(
        event.method.decode(), event.target.decode("ascii"), headers, http_11=event.http_version == b"1.1"
    )
    if length is None and headers.has("transfer-encoding"):
        return request, Body(wire, None, parser)
    return request, Body(wire, length or 0)


def receive_response(wire: Wire, parser: h11.Connection, method: str) -> Response:
    """Returns the response to a request that went out by `parser`. Raises BadMessage, Closed."""
    for _ in range(_GOING_ON + 1):
        head = wire.read_head()
        if head is None:
            raise Closed("the connection ended where a response had to come")
        event = _parsed(parser, head)
        if isinstance(event, h11.Response):
            break
        if not isinstance(event, h11.InformationalResponse):
            raise BadMessage("this is no response")
    else:
        raise BadMessage("the store says again and again that it goes on, and answers nothing")
    headers = _headers(event)
    length = _framing(headers, event.http_version)
    status = int(event.status_code)
    if method == "HEAD" or status in (204, 304):
        body = Body(wire, 0)
    elif headers.has("transfer-encoding"):
        body = Body(wire, None, parser)
    else:
        body = Body(wire, length)
    return Response(status, bytes(event.reason).decode("latin-1"), headers, body)


def _parsed(parser: h11.Connection, head: bytes) -> object:
    try:
        parser.receive_data(head)
        return parser.next_event()
    except h11.RemoteProtocolError as error:
        # What h11 says has the line in it, which may be one with a token.
        raise BadMessage("the head of the message is not HTTP/1.1") from error


def _headers(event: h11.Request | h11.Response) -> Headers:
    return Headers(
        (key.decode("latin-1"), value.decode("latin-1")) for key, value in event.headers.raw_items()
    )


def _framing(headers: Headers, version: bytes) -> int | None:
    """Returns the length of a body. Two ways to tell it, or two lengths, are how requests are smuggled."""
    lengths, codings = headers.all("content-length"), headers.all("transfer-encoding")
    if codings and (version != b"1.1" or lengths or [coding.lower() for coding in codings] != ["chunked"]):
        raise BadMessage("the length of the body is told in two ways, or in one that is not known here")
    if len(lengths) > 1 or (lengths and not re.fullmatch("[0-9]{1,18}", lengths[0])):
        raise BadMessage("the length of the body is not one number")
    return int(lengths[0]) if lengths else None


def request_head(request: Request) -> tuple[bytes, h11.Connection]:
    """Returns the head of a request that goes out, and what reads its response."""
    parser = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_LIMIT)
    fields = [(key.encode("latin-1"), value.encode("latin-1")) for key, value in request.headers]
    event = h11.Request(method=request.method.encode(), target=request.target.encode("ascii"), headers=fields)
    return parser.send(event) or b"", parser


def response_head(status: int, reason: str, headers: Iterable[tuple[str, str]]) -> bytes:
    """Returns the head of a response that goes out."""
    event = h11.Response(
        status_code=status,
        reason=reason.encode("latin-1", "replace"),
        headers=[(key.encode("latin-1"), value.encode("latin-1", "replace")) for key, value in headers],
    )
    lines = [f"HTTP/1.1 {status} ".encode() + bytes(event.reason)]
    lines += [key + b": " + value for key, value in event.headers.raw_items()]
    return b"\r\n".join(lines) + b"\r\n\r\n"
