"""Reads of encrypted objects: only the segments that are needed, each checked whole before its first byte goes on."""

from __future__ import annotations

import re
from dataclasses import dataclass

from runtime.gcs_proxy import envelope
from runtime.gcs_proxy.format import (
    SEGMENT_BYTES,
    TRAILER,
    ByteRange,
    Layout,
    number,
    parse_range,
    sealed_range,
)
from runtime.gcs_proxy.gateway import Gateway, Known
from runtime.gcs_proxy.login import is_signed
from runtime.gcs_proxy.messages import Response
from runtime.gcs_proxy.passing import asked_of_store, relay, without_conditions
from runtime.gcs_proxy.refusal import Refused, corrupt, unavailable, unsatisfied, unsupported
from runtime.gcs_proxy.resources import parse
from runtime.gcs_proxy.routes import Route, object_path, with_query
from runtime.gcs_proxy.seal import Opener, Tampered, WholeCheck
from runtime.gcs_proxy.server import Client
from runtime.gcs_proxy.upstream import Answer, Exchange
from runtime.gcs_proxy.wire import Closed, Fields

_CONTENT_RANGE = re.compile(r"bytes (?:([0-9]{1,18})-[0-9]{1,18}|\*)/([0-9]{1,18})")
_ABOUT_CIPHERTEXT = ("content-range", "content-length", "x-goog-hash", "accept-ranges", "content-md5")
_OURS = f"x-goog-meta-{envelope.PREFIX}"
_MD5 = re.compile('"?[0-9a-f]{32}"?')
_TRIES = 5


def read(gate: Gateway, client: Client, route: Route) -> None:
    """Answers a GET or HEAD of an object's bytes. Raises Refused, Closed."""
    headers = client.request.headers
    if is_signed(client.request.target):
        raise unsupported(
            "an address that is signed is good for one request, and to read what is encrypted takes two: send a token"
        )
    # Of `If-Range` the store would have to judge, by what is not the plaintext's: the whole object is right as well.
    is_part = client.request.method == "GET" and not headers.has("if-range")
    asks = headers.get("range") if is_part else ""
    wanted, pinned = parse_range(asks), route.get("generation")
    known = gate.known(route.bucket, route.name)
    if known and pinned not in ("", known.generation):
        known = None
    for _ in range(_TRIES):
        if known is None and wanted and wanted.suffix is not None:
            # Where the last bytes begin, its size tells.
            known = _learnt(gate, client, route, pinned)
        with _Question(gate, client, route, wanted, known, pinned) as question:
            response, known = question.ask()
            if question.unknown:
                no = question.unknown
                client.answer(no.status, no.headers, no.content, no.reason)
                return
            if known is None:
                known = question.packed or _refused(gate, client, response, route, pinned)
                if known is None:
                    return
                pinned = known.generation
                continue
            found = response.headers.get("x-goog-generation") or pinned
            if found == known.generation and question.fits(known):
                _answer(gate, client, route, response, known, wanted)
                return
        # It is of another generation than was thought, or laid out otherwise: that one is asked for.
        pinned = found or known.generation
        known = known if known.generation == pinned else None
    raise unavailable("the object was written again and again while it was read")


class _Question:
    """Asks the store for bytes, and for metadata at the same time where they are not known."""

    def __init__(
        self,
        gate: Gateway,
        client: Client,
        route: Route,
        wanted: ByteRange | None,
        known: Known | None,
        pinned: str,
    ) -> None:
        self._gate, self._route, self._known = gate, route, known
        self._layout = known.envelope.layout if known else Layout()
        self._encoding = known.encoding if known else ""
        headers = asked_of_store(client.request.headers)
        # Else a service that knows what is stored as gzip would unpack it, and what we sealed is no gzip.
        headers.fields.append(("Accept-Encoding", "gzip" if self._encoding else "identity"))
        if span := sealed_range(wanted, self._layout, known.plain_size if known else None):
            headers.fields.append(("Range", span))
        self._bytes = gate.pool.open(client.request.method, _target(client, route, pinned), headers, None)
        self._metadata: Exchange | None = None
        self.packed: Known | None = None
        """What is stored as gzip, where that was not known: the store failed to unpack what is none."""
        self.unknown: Answer | None = None
        """Why nothing is known of an object whose bytes are there: what they are is not to be guessed then."""
        if known is None:
            try:
                self._metadata = _metadata(gate, client, route, pinned)
            except Refused:
                self._bytes.close()
                raise

    def ask(self) -> tuple[Response, Known | None]:
        """Returns the answer, and what is known then; None where the answer is not 2xx. Raises Refused."""
        told = _told(self._metadata) if self._metadata else None
        response = self._bytes.answer()
        if not 200 <= response.status < 300:
            if response.status >= 500 and told and told.ok and parse(told.content).get("contentEncoding"):
                self.packed = self._gate.learn(parse(told.content), self._route.bucket, self._route.name)
            return response, None
        if told is None:
            return response, self._known
        if not told.ok:
            self.unknown = told
            return response, None
        return response, self._gate.learn(parse(told.content), self._route.bucket, self._route.name)

    def fits(self, known: Known) -> bool:
        """Tells whether it was asked in the way that this object needs."""
        return (known.envelope.layout, bool(known.encoding)) == (self._layout, bool(self._encoding))

    def __enter__(self) -> _Question:
        return self

    def __exit__(self, *_: object) -> None:
        self._bytes.close()
        if self._metadata:
            self._metadata.close()


def _target(client: Client, route: Route, pinned: str) -> str:
    pin = {"generation": pinned} if pinned else {}
    query = route.query_but("generation", **pin)
    path = client.request.target.partition("?")[0]
    if not route.xml:
        root = "/download/storage/v1" if path.startswith("/download/") else "/storage/v1"
        path = object_path(route.bucket, route.name, root)
    return with_query(path, query)


def _metadata(gate: Gateway, client: Client, route: Route, pinned: str) -> Exchange:
    headers = without_conditions(client.request.headers)
    query = route.aside(alt="json", generation=pinned if number(pinned) is not None else "")
    return gate.pool.open("GET", with_query(object_path(route.bucket, route.name), query), headers, None)


def _told(asked: Exchange) -> Answer:
    """Returns what the store says of the object."""
    response = asked.answer()
    try:
        content = response.body.read_all(1 << 20)
    except Closed as error:
        raise unavailable(f"the store broke off: {error}") from error
    return Answer(response.status, response.reason, response.headers, content)


def _learnt(gate: Gateway, client: Client, route: Route, pinned: str) -> Known | None:
    with _metadata(gate, client, route, pinned) as asked:
        told = _told(asked)
    return gate.learn(parse(told.content), route.bucket, route.name) if told.ok else None


def _refused(gate: Gateway, client: Client, response: Response, route: Route, pinned: str) -> Known | None:
    """Sends on what is not 2xx; returns what to ask for where the store tells of another object. Raises Refused."""
    found = _CONTENT_RANGE.fullmatch(response.headers.get("content-range"))
    if response.status != 416 or not found:
        relay(gate, client, response)
        return None
    there, known = int(found[2]), _learnt(gate, client, route, pinned)
    if known is None:
        raise unavailable("the store does not say what the object is")
    if known.sealed_size == there:
        raise _unsatisfied(gate, client, route, known)
    if known.generation == pinned:
        raise corrupt(f"the object has {there} bytes, and {known.sealed_size} by its metadata")
    return known


def _unsatisfied(gate: Gateway, client: Client, route: Route, known: Known) -> Refused:
    """Returns the refusal of a range behind the end. Raises Refused (422) where the last segment is not the end's.

    Clients take `bytes */0` for a whole object of nothing: of one that was cut it is not to be said.
    """
    layout = known.envelope.layout
    last = layout.count(known.plain_size) - 1
    begin = last * layout.segment_bytes
    headers = without_conditions(client.request.headers)
    encoding = "gzip" if known.encoding else "identity"
    headers.fields += [
        ("Accept-Encoding", encoding),
        ("Range", f"bytes={begin}-{begin + layout.segment_bytes - 1}"),
    ]
    told = gate.pool.ask("GET", _target(client, route, known.generation), headers, limit=layout.segment_bytes)
    found = _CONTENT_RANGE.fullmatch(told.headers.get("content-range"))
    if told.status in (206, 416) and found and int(found[2]) != known.sealed_size:
        raise corrupt(f"the object has {found[2]} bytes, and {known.sealed_size} by its metadata")
    if told.status != 206:
        raise unavailable(f"the store answered {told.status} when it was asked for the object's end")
    opener = Opener(known.data_key, known.envelope.object_id, layout, known.plain_size)
    _opened(opener, None, last, memoryview(told.content))
    return unsatisfied(known.plain_size)


def _answer(
    gate: Gateway, client: Client, route: Route, response: Response, known: Known, wanted: ByteRange | None
) -> None:
    plain, layout = known.plain_size, known.envelope.layout
    within = wanted.within(plain) if wanted else (0, plain - 1)
    if within is None:
        raise _unsatisfied(gate, client, route, known)
    first, last = within
    headers = _shown(response, known)
    if wanted:
        headers.append(("Content-Range", f"bytes {first}-{last}/{plain}"))
    if client.request.method == "HEAD":
        client.begin(200, headers, plain)
        return
    if wanted:
        final = min(layout.final(last), layout.count(plain) - 1)
        part = _Part(first, last, first // layout.capacity, final, _begin(response, known), checked=False)
    else:
        part = _Part(0, plain - 1, 0, layout.count(plain) - 1, _begin(response, known), checked=True)
    if part.came_from not in (0, part.segment * layout.segment_bytes):
        raise unavailable("the store answered with another range than it was asked for")
    _stream(gate, client, response, known, part, headers)


@dataclass(frozen=True)
class _Part:
    """Bytes `first` to `last` of a plaintext, for which segments `segment` to `final` are read; `checked`: all."""

    first: int
    last: int
    segment: int
    final: int
    came_from: int
    checked: bool


def _begin(response: Response, known: Known) -> int:
    """Returns where in the object the bytes of a response begin. Raises Refused where they are of another size."""
    found = _CONTENT_RANGE.fullmatch(response.headers.get("content-range"))
    if response.status == 206 and not (found and found[1]):
        raise unavailable("the store does not say which range it sends")
    total = int(found[2]) if found else response.body.left
    if total not in (None, known.sealed_size):
        raise corrupt(f"the object has {total} bytes, and {known.sealed_size} by its metadata")
    if response.headers.has("content-encoding") and not known.encoding:
        raise unavailable("the store sends the object compressed, which it was asked not to")
    return int(found[1]) if found and found[1] else 0


def _shown(response: Response, known: Known) -> Fields:
    """Returns the headers of a response, as they are for the plaintext."""
    fields = []
    for name, value in response.headers.end_to_end().without(_ABOUT_CIPHERTEXT):
        low = name.lower()
        if low.startswith(_OURS) or (low == "etag" and _MD5.fullmatch(value)):
            continue
        fields.append((name, str(known.plain_size) if low == "x-goog-stored-content-length" else value))
    return [*fields, ("Accept-Ranges", "bytes")]


def _stream(
    gate: Gateway, client: Client, response: Response, known: Known, part: _Part, headers: Fields
) -> None:
    """Opens segment by segment and sends what is wanted of each; the answer begins when the first one was right."""
    layout, size = known.envelope.layout, known.envelope.layout.segment_bytes
    opener = Opener(known.data_key, known.envelope.object_id, layout, known.plain_size)
    check = WholeCheck(opener) if part.checked else None
    units = -(-(part.final - part.segment + 1) * size // SEGMENT_BYTES)
    with gate.budget.take(client.wire, max(units, -(-size // SEGMENT_BYTES))) as loan:
        buffer = loan.buffer
        _skip(response, buffer, part.segment * size - part.came_from)
        index, at_once = part.segment, 1  # the first one alone: its bytes are to go on soon
        held = b""
        while index <= part.final:
            until = min(index + at_once - 1, part.final)
            at_once = len(buffer) // size
            filled = _fill(client, response, buffer[: _sealed(layout, index, until, known)])
            for begin in range(0, len(filled), size):
                plain = _opened(opener, check, index, filled[begin : begin + size])
                start = index * layout.capacity
                # What may be the trailer's beginning waits for the next segment, which tells.
                sure = layout.capacity if index == part.final else layout.capacity - TRAILER.size
                first, end = max(0, part.first - start), max(0, part.last + 1 - start)
                ready, held = held + plain[first : min(end, sure)], plain[max(first, sure) : end]
                if not client.status and (ready or index == part.final):
                    client.begin(206 if not part.checked else 200, headers, part.last - part.first + 1)
                if ready:
                    client.write(ready)
                index += 1


def _sealed(layout: Layout, first: int, last: int, known: Known) -> int:
    """Returns how many bytes segments `first` to `last` have together."""
    return min((last + 1) * layout.segment_bytes, known.sealed_size) - first * layout.segment_bytes


def _skip(response: Response, buffer: memoryview, left: int) -> None:
    while left > 0 and (came := response.body.read_into(buffer[:left])):
        left -= came


def _fill(client: Client, response: Response, view: memoryview) -> memoryview:
    """Fills it from the store. Raises Refused where that broke off before an answer began, else Closed."""
    try:
        filled = response.body.fill(view)
    except Closed as error:
        raise (
            Closed(str(error)) if client.status else unavailable(f"the store broke off: {error}")
        ) from error
    if filled < len(view):
        raise corrupt("the object ends before its time")
    return view


def _opened(opener: Opener, check: WholeCheck | None, index: int, segment: memoryview) -> bytes:
    try:
        opened = opener.open(index, segment)
        return check.take(index, opened) if check else opener.plain_part(index, opened)
    except Tampered as error:
        raise corrupt(str(error)) from error
