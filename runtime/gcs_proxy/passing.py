"""Requests that pass through as they are, both ways in pieces."""

from __future__ import annotations

import re
from collections.abc import Callable

from runtime.gcs_proxy.buffers import LARGE
from runtime.gcs_proxy.gateway import Gateway
from runtime.gcs_proxy.messages import Response
from runtime.gcs_proxy.server import Client
from runtime.gcs_proxy.wire import Headers

_NOT_OF_STORE = re.compile(
    "(?i)accept-encoding|range|if-range|content-type|"
    "x-goog-hash|content-md5|digest|content-digest|repr-digest|x-amz-checksum-.*|x-amz-sdk-checksum-algorithm"
)
"""Fields that say how the answer, or the body, is to be: of the plaintext, or by a checksum of it."""
See = Callable[[memoryview], None]


def pass_through(
    gate: Gateway, client: Client, before: bytes = b"", target: str = "", see: See | None = None
) -> None:
    """Sends a request on and its answer back. Raises Refused, Closed.

    `before`: what was read of its body; `target`: where it goes, if not where the client says; `see` gets each further
    piece before it goes, and may raise Refused.
    """
    request, body = client.request, client.body
    chunked = body.left is None and not body.ended
    length = (
        None if body.left is None or not request.headers.has("content-length") else len(before) + body.left
    )
    headers = request.headers
    with gate.pool.open(
        request.method, target or request.target, headers, length, chunked=chunked
    ) as exchange:
        whole = not before or exchange.send(before)
        if not body.ended:
            with gate.budget.take(client.wire, LARGE) as loan:
                while whole and (came := body.read_into(loan.buffer)):
                    if see:
                        see(loan.buffer[:came])
                    whole = exchange.send(loan.buffer[:came])
        relay(gate, client, exchange.answer(whole=whole))


def relay(gate: Gateway, client: Client, response: Response) -> None:
    """Sends an answer of the store on as it is. Raises Refused, Closed."""
    headers = response.headers.end_to_end()
    body = response.body
    length = body.left if body.left is not None else None
    if client.request.method == "HEAD" or response.status == 304:
        told = response.headers.get("content-length")
        fields = [*headers, ("Content-Length", told)] if told else list(headers)
        client.begin(response.status, fields, None, response.reason)
        return
    if length is not None:
        client.begin(response.status, headers, None if response.status == 204 else length, response.reason)
        _copy(gate, client, response, length)
        return
    framed = client.request.http_11  # others are told the end by the end of the connection
    fields = [*headers, ("Transfer-Encoding", "chunked")] if framed else list(headers)
    client.begin(response.status, fields, None, response.reason)
    with gate.budget.take(client.wire, 1) as loan:
        buffer = loan.buffer
        while came := body.read_into(buffer):
            client.write(b"%x\r\n" % came + bytes(buffer[:came]) + b"\r\n" if framed else buffer[:came])
    if framed:
        client.write(b"0\r\n\r\n")


def _copy(gate: Gateway, client: Client, response: Response, length: int) -> None:
    if not length:
        return
    with gate.budget.take(client.wire, -(-length // (64 << 10))) as loan:
        while came := response.body.read_into(loan.buffer):
            client.write(loan.buffer[:came])


def asked_of_store(headers: Headers) -> Headers:
    """Returns a client's headers as the store may see them where we read its answer: nothing of it compressed.

    What the client says of its own connection ends here: it could name fields there that we are about to add.
    """
    return Headers((name, value) for name, value in headers.end_to_end() if not _NOT_OF_STORE.fullmatch(name))


def without_conditions(headers: Headers) -> Headers:
    """Returns those of a client's headers that hold for another request about the same object, too."""
    return Headers(
        (name, value)
        for name, value in asked_of_store(headers)
        if not name.lower().startswith(("if-", "x-goog-if-", "x-goog-meta-", "x-upload-", "content-"))
    )
