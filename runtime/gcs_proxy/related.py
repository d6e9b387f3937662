"""Bodies of multipart uploads: JSON, then an object's bytes, whose end is known only at the end of the body."""

from __future__ import annotations

import re
from email.message import Message

from runtime.gcs_proxy.messages import Body
from runtime.gcs_proxy.refusal import invalid
from runtime.gcs_proxy.resources import Resource, parse_clients

_BEGINNING_LIMIT = 1 << 20
_LONGEST_BOUNDARY = 256
_FIELDS = rb"(?:[!-9;-~]+:[^\r\n]*\r?\n(?:[ \t][^\r\n]*\r?\n)*)*\r?\n"


class MediaPart:
    """The bytes of the object, read as from a Body; behind them stands the closing delimiter and nothing else."""

    def __init__(
        self, body: Body, closing: re.Pattern[bytes], longest: int, read: bytes, content_type: str
    ) -> None:
        self._body, self._closing, self._longest = body, closing, longest
        self._ahead, self._over = bytearray(read), False
        self.content_type = content_type
        self.raw = b""
        """All that was read of the body before its bytes are asked for."""
        self.begun = bytes(read)
        """What of that is behind the header lines of the object."""
        self.delimiter = b""
        """With what the next part would begin, or the body end."""

    def fill(self, view: memoryview) -> int:
        """Fills a buffer as far as the object goes; returns how many bytes came. Raises Refused, Closed."""
        if self._over:
            return self._take(view)
        filled = self._take(view)
        filled += self._body.fill(view[filled:])
        # The delimiter is not longer than what is read ahead: with all of that there, it does not begin before.
        if (missing := self._longest - len(self._ahead)) > 0:
            more = bytearray(missing)
            self._ahead += more[: self._body.fill(memoryview(more))]
        if len(self._ahead) >= self._longest:
            return filled
        return self._end(view, filled)

    def _take(self, view: memoryview) -> int:
        taken = min(len(view), len(self._ahead))
        view[:taken] = self._ahead[:taken]
        del self._ahead[:taken]
        return taken

    def _end(self, view: memoryview, filled: int) -> int:
        """The body is over: finds the delimiter at its end."""
        begin = max(0, filled - self._longest)
        tail = bytes(view[begin:filled]) + bytes(self._ahead)
        found = self._closing.search(tail)
        if not found:
            raise invalid("the multipart body does not end with its boundary")
        self._over = True
        end = begin + found.start()
        self._ahead = self._ahead[: max(0, end - filled)]
        return min(end, filled)


def open_related(body: Body, content_type: str) -> tuple[Resource, MediaPart]:
    """Reads the JSON of a multipart/related body; returns it and the part behind it. Raises Refused (400), Closed."""
    boundary = re.escape(plain_boundary := _plain_boundary(content_type))
    # A part has header lines, or none: then it begins with the empty line.
    opening = re.compile(
        rb"\s*--" + boundary + rb"[ \t]*(?P<line>\r?\n)" + _FIELDS + rb"(?P<json>(?s:.*?))(?P=line)--" + boundary
        + rb"[ \t]*\r?\n(?P<second>" + _FIELDS + rb")"
    )  # fmt: skip
    read, piece = bytearray(), memoryview(bytearray(16 << 10))
    while not (found := opening.match(read)):
        if len(read) > _BEGINNING_LIMIT:
            raise invalid("the multipart body does not begin with JSON, or with more than is allowed")
        came = body.read_into(piece)
        if not came:
            raise invalid(
                "the multipart body has not JSON and then the object, each with its header lines or an empty one"
            )
        read += piece[:came]
    line = bytes(found["line"])
    # Clients that end their lines with a line feed alone have it before the delimiter as well.
    closing = re.compile(re.escape(line) + rb"--" + boundary + rb"--[ \t]*(?:\r?\n)*\Z")
    resource = parse_clients(bytes(found["json"]))
    kind = re.search(rb"(?im)^content-type:[ \t]*([^\r\n]*)", found["second"])
    told = kind[1].decode("latin-1").strip() if kind else ""
    part = MediaPart(body, closing, len(boundary) + 16, bytes(read[found.end() :]), told)
    part.raw, part.delimiter = bytes(read), b"\n--" + plain_boundary
    return resource, part


def _plain_boundary(content_type: str) -> bytes:
    message = Message()
    message["Content-Type"] = content_type
    boundary = message.get_param("boundary")
    if message.get_content_type() != "multipart/related" or not isinstance(boundary, str):
        raise invalid("the body of a multipart upload is multipart/related, with a boundary")
    if not 0 < len(boundary) <= _LONGEST_BOUNDARY or not boundary.isascii():
        raise invalid("the boundary is too long, or not ASCII")
    return boundary.encode()
