"""Reads of encrypted objects: only the segments that are needed, each checked whole before its first byte goes on."""

from __future__ import annotations

import re

from runtime.gcs_proxy import envelope
from runtime.gcs_proxy.format import (
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
from runtime.gcs_proxy.seal import Opener, Tampered
from runtime.gcs_proxy.server import Client
from runtime.gcs_proxy.streaming import Part, stream
from runtime.gcs_proxy.upstream import Answer, Exchange
from runtime.gcs_proxy.wire import Closed, Fields

_CONTENT_RANGE = re.compile(r"bytes (?:([0-9]{1,18})-[0-9]{1,18}|\*)/([0-9]{1,18})")
_ABOUT_CIPHERTEXT = ("content-range", "content-length", "x-goog-hash", "accept-ranges", "content-md5")
_OURS = f"x-goog-meta-{envelope.PREFIX}"
_MD5 = re.compile('"?[0-9a-f]{32}"?')
_TRIES = 20
"""Of a client that reads while others write all the time, each may find another generation than the one before."""


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
    asked_for = pinned
    known = gate.known(route.bucket, route.name)
    if known and pinned not in ("", known.generation):
        known = None
    for _ in range(_TRIES):
        if known is None and wanted and wanted.suffix is not None:
            # Where the last bytes begin, its size tells.
            known = _learnt(gate, client, route, pinned)
        with _Question(gate, client, route, wanted, known, pinned) as question:
            response, known = question.ask()
            if pinned != asked_for and 404 in (response.status, question.unknown and question.unknown.status):
                # Somebody wrote it anew since the first answer: what is missing is what it was, not the object.
                pinned, known = asked_for, None
                continue
            if question.unknown:
                no = question.unknown
                client.answer(no.status, no.headers, no.content, no.reason)
                return
            if known is None:
                known = question.packed or _refused(gate, client, response, route, pinned, wanted)
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


def _refused(
    gate: Gateway, client: Client, response: Response, route: Route, pinned: str, wanted: ByteRange | None
) -> Known | None:
    """Sends on what is not 2xx; returns what to ask for where the store tells of another object. Raises Refused."""
    found = _CONTENT_RANGE.fullmatch(response.headers.get("content-range"))
    if response.status != 416 or not found:
        relay(gate, client, response)
        return None
    there, known = int(found[2]), _learnt(gate, client, route, pinned)
    if known is None:
        raise unavailable("the store does not say what the object is")
    if known.sealed_size == there and wanted and wanted.within(known.plain_size):
        return known  # it was asked for by the size of what was there before
    if known.sealed_size == there:
        raise _unsatisfied(gate, client, route, known)
    if known.generation == pinned:
        raise corrupt(f"the object has {there} bytes, and {known.sealed_size} by its metadata")
    return known


def _unsatisfied(gate: Gateway, client: Client, route: Route, known: Known) -> Refused:
    """Returns the refusal of a range behind the end. Raises Refused (422) where the last segment is not the end's.

    Clients take `bytes */0` for a whole object of nothing: of one that was cut it is not to be said.
    """
    _look_at(gate, client, route, known, known.envelope.layout.count(known.plain_size) - 1)
    return unsatisfied(known.plain_size)


def _look_at(gate: Gateway, client: Client, route: Route, known: Known, segment: int) -> None:
    """Reads one segment alone. Raises Refused (422) where it is not right."""
    layout = known.envelope.layout
    begin = segment * layout.segment_bytes
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
        raise unavailable(f"the store answered {told.status} when it was asked for segment {segment}")
    opener = Opener(known.data_key, known.envelope.object_id, layout, known.plain_size)
    try:
        opener.open(segment, memoryview(told.content), memoryview(bytearray(layout.capacity)))
    except Tampered as error:
        raise corrupt(str(error)) from error


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
        part = Part(first, last, first // layout.capacity, final, _begin(response, known), checked=False)
    else:
        part = Part(0, plain - 1, 0, layout.count(plain) - 1, _begin(response, known), checked=True)
    if part.came_from not in (0, part.segment * layout.segment_bytes):
        raise unavailable("the store answered with another range than it was asked for")
    bad = gate.bad(route.bucket, route.name, known.generation)
    if bad is not None and part.segment <= bad <= part.final:
        # A cut tells nobody why, and who asks again would be cut again: it is told before anything is sent.
        _look_at(gate, client, route, known, bad)
        gate.note_bad(route.bucket, route.name, known.generation, None)
    stream(gate, client, route, response, known, part, headers)


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
