"""Sends the plaintext of an encrypted object on as its segments come, each after it was found right."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from runtime.gcs_proxy.format import SEGMENT_BYTES, TRAILER
from runtime.gcs_proxy.gateway import Gateway, Known
from runtime.gcs_proxy.messages import Response
from runtime.gcs_proxy.refusal import Refused, corrupt, unavailable
from runtime.gcs_proxy.routes import Route
from runtime.gcs_proxy.seal import Opener, Tampered, WholeCheck
from runtime.gcs_proxy.server import Client
from runtime.gcs_proxy.wire import Closed, Fields


@dataclass(frozen=True)
class Part:
    """Bytes `first` to `last` of a plaintext, for which segments `segment` to `final` are read; `checked`: all."""

    first: int
    last: int
    segment: int
    final: int
    came_from: int
    """Where in the object the bytes begin that the store sends."""
    checked: bool


def stream(
    gate: Gateway, client: Client, route: Route, response: Response, known: Known, part: Part, headers: Fields
) -> None:
    """Sends a part of a plaintext; the answer begins with its first byte that is right. Raises Refused, Closed.

    What is wrong further on cuts the answer, and clients ask again as after any cut: it is noted for these.
    """
    opening = _Opening(known, part)
    try:
        _send(gate, client, response, opening, part, headers)
    except Refused:
        if client.status and opening.bad is not None:
            gate.note_bad(route.bucket, route.name, known.generation, opening.bad)
        raise


def _send(
    gate: Gateway, client: Client, response: Response, opening: _Opening, part: Part, headers: Fields
) -> None:
    known = opening.known
    size = known.envelope.layout.segment_bytes
    units = max(-(-(part.final - part.segment + 1) * size // SEGMENT_BYTES), -(-size // SEGMENT_BYTES))
    with gate.budget.take(client.wire, units, buffers=2) as loan:
        _skip(response, loan.buffer, part.segment * size - part.came_from)
        index, at_once = part.segment, 1  # the first one alone: its bytes are to go on soon
        while index <= part.final:
            behind = min(index + at_once, part.final + 1)
            sealed = loan.buffer[: min(behind * size, known.sealed_size) - index * size]
            _fill(client, response, sealed)
            for begin, plain in opening.opened(sealed, loan.beside):
                wanted = plain[max(0, part.first - begin) : max(0, part.last + 1 - begin)]
                if wanted and not client.status:
                    _begin(client, part, headers)
                if wanted:
                    client.write(wanted)
            index, at_once = behind, len(loan.buffer) // size
    if not client.status:  # of an object of nothing
        _begin(client, part, headers)


def _begin(client: Client, part: Part, headers: Fields) -> None:
    client.begin(200 if part.checked else 206, headers, part.last - part.first + 1)


class _Opening:
    """Opens the segments of a part, one after the other."""

    bad: int | None = None
    """The segment that was not right."""

    def __init__(self, known: Known, part: Part) -> None:
        self.known = known
        self._layout, self._plain, self._final = known.envelope.layout, known.plain_size, part.final
        self._opener = Opener(known.data_key, known.envelope.object_id, self._layout, known.plain_size)
        self._check = WholeCheck(known.plain_size) if part.checked else None
        self._index, self._held = part.segment, b""

    def opened(self, sealed: memoryview, out: memoryview) -> Iterator[tuple[int, memoryview]]:
        """Opens segments into a buffer, and yields what of it is plaintext and where that begins in the object's.

        What may be the trailer's beginning waits for the next segment, which tells. Raises Refused at a segment that
        is not right, when what is right before it was yielded.
        """
        size, capacity = self._layout.segment_bytes, self._layout.capacity
        at_once = (len(out) - TRAILER.size) // capacity * size
        for begin in range(0, len(sealed), at_once):
            position = self._index * capacity - len(self._held)
            filled, wrong = self._fill(sealed[begin : begin + at_once], out)
            over = self._index > self._final
            sure = filled if over else max(0, filled - TRAILER.size)
            self._held = bytes(out[sure:filled])
            if sure:
                yield position, self._plaintext(position, out[:sure])
            if wrong:
                raise corrupt(str(wrong)) from wrong

    def _fill(self, sealed: memoryview, out: memoryview) -> tuple[int, Tampered | None]:
        """Opens segments behind what was held back; returns how many bytes there are, and what was not right."""
        size, filled = self._layout.segment_bytes, len(self._held)
        out[:filled] = self._held
        try:
            for begin in range(0, len(sealed), size):
                opened = self._opener.open(self._index, sealed[begin : begin + size], out[filled:])
                filled += len(opened)
                self._index += 1
        except Tampered as error:
            self.bad = self._index
            return filled, error
        return filled, None

    def _plaintext(self, position: int, opened: memoryview) -> memoryview:
        if self._check is None:
            return opened[: max(0, self._plain - position)]
        try:
            return self._check.take(opened)
        except Tampered as error:
            raise corrupt(str(error)) from error


def _skip(response: Response, buffer: memoryview, left: int) -> None:
    while left > 0 and (came := response.body.read_into(buffer[:left])):
        left -= came


def _fill(client: Client, response: Response, view: memoryview) -> None:
    """Fills it from the store. Raises Refused where that broke off before an answer began, else Closed."""
    try:
        filled = response.body.fill(view)
    except Closed as error:
        raise (
            Closed(str(error)) if client.status else unavailable(f"the store broke off: {error}")
        ) from error
    if filled < len(view):
        raise corrupt("the object ends before its time")
