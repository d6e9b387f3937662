"""Requests of a resumable upload: chunks of any size, status queries, and what the store makes of them."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass

from runtime.gcs_proxy.buffers import LARGE
from runtime.gcs_proxy.format import SEGMENT_BYTES
from runtime.gcs_proxy.gateway import Gateway
from runtime.gcs_proxy.messages import Response
from runtime.gcs_proxy.passing import asked_of_store, pass_through, relay
from runtime.gcs_proxy.refusal import Refused, invalid, unavailable
from runtime.gcs_proxy.resources import Resource, parse
from runtime.gcs_proxy.routes import Route
from runtime.gcs_proxy.sealing import refuse_compressed, told_checksums
from runtime.gcs_proxy.server import Client
from runtime.gcs_proxy.upload_state import BLOCK_SEGMENTS, Chunk, Sending, Session, kept_by, parse_chunk
from runtime.gcs_proxy.uploads import check_kept, confirmed
from runtime.gcs_proxy.upstream import Answer, Exchange
from runtime.gcs_proxy.wire import Closed, Headers

_ANSWER_LIMIT = 1 << 20


class _Lying(Exception):
    """The store says what cannot be: the upload is given up."""


def proceed(gate: Gateway, client: Client, route: Route) -> None:
    """Answers a chunk, a status query or the cancelling of an upload. Raises Refused, Closed."""
    number = route.get("upload_id")
    with gate.sessions.turn(number) as session:
        if (session.bucket, session.sealing is None) == (route.bucket, True):
            pass_through(gate, client, target=session.target)
        elif session.bucket != route.bucket:
            raise Refused(410, "uploadSessionGone", "This upload is not one to this bucket")
        elif client.request.method == "DELETE":
            gate.sessions.drop(number)
            answer = gate.pool.ask("DELETE", session.target, asked_of_store(client.request.headers))
            client.answer(answer.status, answer.headers, answer.content, answer.reason)
        elif client.request.method not in ("PUT", "POST"):
            raise invalid("an upload goes on by PUT")
        else:
            try:
                _Step(gate, client, session, number).take()
            except _Lying as lie:
                gate.sessions.drop(number)
                raise unavailable(f"the upload is given up: {lie}") from lie


@dataclass
class _Step:
    """One request of an upload."""

    gate: Gateway
    client: Client
    session: Session
    number: str

    def take(self) -> None:
        """Answers it."""
        client, session = self.client, self.session
        refuse_compressed(client.request.headers)
        chunk = parse_chunk(client.request.headers.get("content-range"), client.body.left)
        if session.done is None and session.uncertain and not self._settled():
            return
        if session.done is not None:
            self._tell_done(session.done)
            return
        if session.total is not None and chunk.total not in (None, session.total):
            raise invalid(
                f"the upload began as one of {session.total} bytes, and has {chunk.total} by this request"
            )
        session.plain.hear(told_checksums(client.request.headers))
        if chunk.total is not None and chunk.total < session.received:
            raise invalid(
                f"the upload has {chunk.total} bytes by this request, and {session.received} were received"
            )
        if chunk.query:
            self._go_on(0, chunk.total, final=chunk.total == session.received)
            return
        size = self._new_bytes(chunk)
        final = chunk.total is not None and chunk.first + (chunk.size or 0) == chunk.total
        self._go_on(size, chunk.total, final=final)

    def _new_bytes(self, chunk: Chunk) -> int:
        """Returns how many bytes of a chunk are new; those that were received before are read and left."""
        if chunk.size is None:
            raise invalid("a chunk of an upload says how long it is, by Content-Length or Content-Range")
        old = self.session.received - chunk.first
        if old < 0:
            raise invalid(
                f"the chunk begins at byte {chunk.first}; {self.session.received} bytes were received"
            )
        left = min(old, chunk.size)
        scratch = memoryview(bytearray(min(left, SEGMENT_BYTES)))
        while left and (came := self.client.body.read_into(scratch[:left])):
            left -= came
        return max(0, chunk.size - old)

    def _go_on(self, size: int, total: int | None, *, final: bool) -> None:
        """Takes `size` bytes more, and sends on what makes whole blocks, or all when they are the last."""
        session = self.session
        block = BLOCK_SEGMENTS * session.plain.sealer.layout.capacity
        available = len(session.held) + size
        ready = available if final else available // block * block
        source = Sending(session.held, self.client.body, size)
        if not final and not ready:
            self.gate.sessions.check_room(size)
            held = self._rest(source, available)
            session.held = held
            self._tell_incomplete()
            return
        if total is not None and total < session.plain.sealer.plain + available:
            raise invalid("there are more bytes than the upload has by this request")
        self._send(source, ready, available - ready, final=final)

    def _rest(self, source: Sending, size: int) -> bytes:
        rest = bytearray(size)
        if source.fill(memoryview(rest)) < size:
            raise invalid("the body is shorter than its Content-Range")
        return bytes(rest)

    def _send(self, source: Sending, ready: int, left: int, *, final: bool) -> None:
        """Sends `ready` bytes of plaintext on, sealed; `left` more stay here."""
        session, sealer = self.session, self.session.plain.sealer
        layout, begin = sealer.layout, sealer.index * SEGMENT_BYTES
        if final:
            end = layout.sealed_size(sealer.plain + ready)
            told = f"bytes {begin}-{end - 1}/{end}"
        else:
            end = begin + ready // layout.capacity * SEGMENT_BYTES
            told = f"bytes {begin}-{end - 1}/*"
        headers = asked_of_store(self.client.request.headers).without(("content-range",))
        headers.fields.append(("Content-Range", told))
        session.uncertain = True
        with self.gate.pool.open("PUT", session.target, headers, end - begin) as exchange:
            whole = self._seal(exchange, source, ready, final=final)
            rest = self._rest(source, left) if whole else b""
            response = exchange.answer(whole=whole)
            if response.status != 308 and not 200 <= response.status < 300:
                if response.status in (404, 410):
                    self.gate.sessions.drop(self.number)
                relay(self.gate, self.client, response)
                return
            answer = _read(response)
        self._understand(answer, end, rest, complete=whole and final, whole=whole)

    def _seal(self, exchange: Exchange, source: Sending, ready: int, *, final: bool) -> bool:
        """Sends sealed segments, and notes behind each block where that is; False where the store answered instead."""
        session, plain = self.session, self.session.plain
        sealer, capacity = plain.sealer, plain.sealer.layout.capacity
        whole = ready // capacity * capacity
        with self.gate.budget.take(self.client.wire, LARGE, buffers=2) as loan:
            room, sealed = (
                loan.buffer[: loan.count // BLOCK_SEGMENTS * BLOCK_SEGMENTS * capacity],
                loan.beside,
            )
            while whole:
                piece = room[: min(whole, len(room))]
                if source.fill(piece) < len(piece):
                    raise invalid("the body is shorter than its Content-Range")
                filled = 0
                for begin in range(0, len(piece), BLOCK_SEGMENTS * capacity):
                    block = piece[begin : begin + BLOCK_SEGMENTS * capacity]
                    if plain.md5:
                        plain.md5.update(block)
                    filled += sealer.whole(block, sealed[filled:])
                    session.mark()  # before it goes: of what breaks off in sending, the store may have all
                if not exchange.send(sealed[:filled]):
                    return False
                whole -= len(piece)
        if not final:
            return True
        rest = self._rest(source, ready % capacity)
        if plain.md5:
            plain.md5.update(rest)
        last = sealer.last(rest)
        try:
            plain.verify()
        except Refused:
            self._cancel()
            raise
        return exchange.send(last)

    def _cancel(self) -> None:
        """What came is not what the client says it is: there is to be no object of it."""
        self.gate.sessions.drop(self.number)
        with contextlib.suppress(Refused):
            self.gate.pool.ask("DELETE", self.session.target, asked_of_store(self.client.request.headers))

    def _settled(self) -> bool:
        """Asks the store what it keeps after a cut; tells whether it said so. What else it says goes to the client."""
        headers = asked_of_store(self.client.request.headers).without(("content-range",))
        headers.fields.append(("Content-Range", "bytes */*"))
        answer = self.gate.pool.ask("PUT", self.session.target, headers)
        sealer = self.session.plain.sealer
        if answer.status != 308 and not answer.ok:
            if answer.status in (404, 410):
                self.gate.sessions.drop(self.number)
            self.client.answer(answer.status, answer.headers, answer.content, answer.reason)
            return False
        if answer.ok:
            self._complete(parse(answer.content), sealed=sealer.layout.sealed_size(sealer.plain))
        else:
            self._go_back(kept_by(answer.headers.get("range")))
        return True

    def _understand(self, answer: Answer, end: int, rest: bytes, *, complete: bool, whole: bool) -> None:
        session = self.session
        if answer.ok:
            if not complete:
                raise _Lying("the store says that it has the object before all of it was sent")
            self._complete(parse(answer.content), sealed=end)
            assert session.done is not None
            self._tell_done(session.done)
            return
        kept = kept_by(answer.headers.get("range"))
        if kept is not None and kept > end:
            raise _Lying(f"the store says that it keeps {kept} bytes, and was sent {end}")
        if kept == end and whole and not complete:
            session.settle()
            self.gate.sessions.check_room(len(rest))
            session.held = rest
        else:
            self._go_back(kept)
        self._tell_incomplete()

    def _go_back(self, kept: int | None) -> None:
        if kept is None or not self.session.go_back(kept):
            raise _Lying(f"the store says that it keeps {kept} bytes, which cannot be")

    def _complete(self, stored: Resource, *, sealed: int) -> None:
        if stored.get("size", str(sealed)) != str(sealed):
            raise _Lying("the store kept another number of bytes than it was sent")
        try:
            about = Route("session", self.session.bucket, self.session.name)
            check_kept(self.gate, self.client, about, stored, self.session.plain.sealer)
        except Refused as refused:
            raise _Lying(refused.message) from refused
        self.session.uncertain = False
        self.session.held = b""
        self.session.done = json.dumps(confirmed(stored, self.client, self.session.plain)).encode()

    def _tell_incomplete(self) -> None:
        received = self.session.received
        headers = [("Range", f"bytes=0-{received - 1}")] if received else []
        self.client.answer(308, headers, b"", "Resume Incomplete")

    def _tell_done(self, content: bytes) -> None:
        self.client.answer(200, [("Content-Type", "application/json; charset=UTF-8")], content)


def _read(response: Response) -> Answer:
    try:
        content = response.body.read_all(_ANSWER_LIMIT)
    except Closed as error:
        raise unavailable(f"the store broke off: {error}") from error
    return Answer(response.status, response.reason, Headers(response.headers), content)
