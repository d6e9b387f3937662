"""Batches of deletes and of requests for metadata: each is answered on its own, and the answers are put together."""

from __future__ import annotations

import itertools
import re
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from runtime.gcs_proxy.ambiguity import BODILESS, refuse_two_readings
from runtime.gcs_proxy.boundaries import boundary_of, telling
from runtime.gcs_proxy.format import number
from runtime.gcs_proxy.gateway import Gateway
from runtime.gcs_proxy.messages import Body, Request
from runtime.gcs_proxy.passing import pass_through
from runtime.gcs_proxy.refusal import Refused, invalid, unsupported
from runtime.gcs_proxy.related import AS_IT_IS
from runtime.gcs_proxy.routes import Route, route
from runtime.gcs_proxy.server import Client
from runtime.gcs_proxy.wire import BadMessage, Headers, Wire

_BODY_LIMIT = 4 << 20
_MOST = 1000
_AT_ONCE = 8
_LINE = re.compile(rb"(?P<method>[A-Z]+) (?:https?://(?P<host>[^/ ]+))?(?P<target>/[!-~]*)(?: HTTP/1\.1)?")
_HEADER = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\0\r\f\v]*")
_SPLIT = ("delete", "metadata", "change")
"""What is carried out of a batch in which any object may be encrypted."""

_NEVER = ("batch", "upload", "session", "media")
"""What Cloud Storage does not take in a batch either: where anything is encrypted, nothing of it goes up in one."""

Answer = Callable[[Gateway, Client], None]


@dataclass(frozen=True)
class _Part:
    number: str
    request: Request
    content: bytes
    about: Route


class _Recorded(Wire):
    """Takes the place of a connection: a body is read from it, and an answer is kept."""

    def __init__(self, content: bytes) -> None:
        self._pending = bytearray(content)
        self.answer = bytearray()

    def send(self, data: bytes | memoryview) -> None:
        """See Wire."""
        self.answer += data

    def read_into(self, view: memoryview) -> int:
        """See Wire."""
        taken = min(len(view), len(self._pending))
        view[:taken] = self._pending[:taken]
        del self._pending[:taken]
        return taken


def answer_batch(gate: Gateway, client: Client, answer: Answer) -> None:
    """Answers a batch, by `answer` for each of its requests. Raises Refused, Closed."""
    content = client.body.read_all(_BODY_LIMIT)
    headers = client.request.headers
    boundary = boundary_of(headers.get("content-type"), "the body of a batch", "multipart/mixed")
    parts = [_part(gate, client, raw) for raw in _split(content, boundary)]
    for part in parts:
        refuse_two_readings(part.request)
    if not gate.key_map.entries or all(_is_apart(gate, part.about) for part in parts):
        kind = telling("multipart/mixed", boundary)  # as it was read here
        client.request.headers = Headers([*headers.without(("content-type",)), kind])
        pass_through(gate, client, content)
        return
    for part in parts:
        if part.about.kind not in _SPLIT:
            what = f"{part.request.method} {part.about.kind}"
            raise unsupported(
                f"a batch may delete objects, and read or change their metadata, here; {what} may not be in it"
            )
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        answers = list(threads.map(lambda part: _answered(gate, client, part, answer), parts))
    answered = f"batch_{secrets.token_hex(12)}"
    told = b""
    for part, one in zip(parts, answers, strict=True):
        head = (
            f"--{answered}\r\nContent-Type: application/http\r\nContent-ID: <response-{part.number}>\r\n\r\n"
        )
        told += head.encode() + one + b"\r\n"
    client.answer(
        200,
        [("Content-Type", f"multipart/mixed; boundary={answered}")],
        told + f"--{answered}--\r\n".encode(),
    )


def _is_apart(gate: Gateway, about: Route) -> bool:
    """Tells whether what is asked has nothing to do with encrypted objects, whoever reads it."""
    places = (about.bucket, about.to[0])
    return about.kind not in _NEVER and not any(map(gate.key_map.touches, filter(None, places)))


def _answered(gate: Gateway, client: Client, part: _Part, answer: Answer) -> bytes:
    wire = _Recorded(part.content)
    one = Client(wire, part.request, Body(wire, len(part.content)))
    one.scheme = client.scheme
    try:
        answer(gate, one)
    except Refused as refused:
        one.refuse(refused)
    except BadMessage as error:
        one.refuse(invalid(str(error)))
    return bytes(wire.answer)


def _split(content: bytes, boundary: bytes) -> list[bytes]:
    """Returns the parts of a multipart body."""
    begin = rb"--" + re.escape(boundary)
    marks = list(re.finditer(rb"(?:\A|\r?\n)" + begin + rb"(--)?[ \t]*(?:\r?\n|\Z)", content))
    if not marks or not marks[-1][1] or any(found[1] for found in marks[:-1]):
        raise invalid("the batch does not end with its boundary")
    if len(re.findall(rb"(?:\A|[\r\n])" + begin, content)) > len(marks):
        raise invalid("a line of the batch begins with its boundary, and goes on")  # some take it for one
    if not 1 < len(marks) <= _MOST + 1:
        raise invalid(f"a batch has 1 to {_MOST} requests")
    return [content[this.end() : following.start()] for this, following in itertools.pairwise(marks)]


def _part(gate: Gateway, client: Client, raw: bytes) -> _Part:
    about_part, _, request = _halves(raw)
    line, _, rest = request.partition(b"\n")
    found = _LINE.fullmatch(line.strip())
    told = _fields(about_part)
    if told.get("content-type").split(";")[0].strip() != "application/http" or not found:
        raise invalid("each part of a batch is application/http, with one request")
    if any(coding.lower() not in AS_IT_IS for coding in told.all("content-transfer-encoding")):
        raise invalid("a request of the batch does not stand there as it is")
    host = (found["host"] or b"").decode("latin-1")
    if host not in ("", client.request.headers.get("host"), gate.pool.origin.authority):
        raise invalid("the requests of a batch are to where the batch goes")
    inner, _, content = (
        _halves(rest) if not rest.startswith((b"\n", b"\r\n")) else (b"", b"", rest.lstrip(b"\r\n"))
    )
    if not all(_HEADER.fullmatch(one) for one in re.split(rb"\r?\n", inner) if b":" in one):
        raise invalid("a request of the batch has a header that is not HTTP's")
    own = _fields(inner)
    common = client.request.headers.end_to_end()
    kept = [
        (name, value)
        for name, value in common
        if not name.lower().startswith("content-") and not own.has(name.lower())
    ]
    headers = Headers([("Host", client.request.headers.get("host")), *kept, *own.end_to_end()])
    request_of = Request(found["method"].decode(), found["target"].decode(), headers)
    part = told.get("content-id").strip("<>")
    content = content[: number(own.get("content-length"))]
    if request_of.method in BODILESS and not content.strip(b"\r\n"):
        content = b""  # an empty line more, before the boundary
    return _Part(part, request_of, content, route(request_of.method, request_of.target))


def _halves(raw: bytes) -> tuple[bytes, bytes, bytes]:
    found = re.search(rb"\r?\n\r?\n", raw)
    return (raw[: found.start()], found[0], raw[found.end() :]) if found else (raw, b"", b"")


def _fields(raw: bytes) -> Headers:
    lines = [line.partition(b":") for line in re.split(rb"\r?\n", raw) if b":" in line]
    return Headers(
        (name.strip().decode("latin-1"), value.strip().decode("latin-1")) for name, _, value in lines
    )
