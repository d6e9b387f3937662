"""Bodies of multipart uploads: JSON, then an object's bytes, whose end is known only at the end of the body."""

from __future__ import annotations

import base64
import binascii
import re

from runtime.gcs_proxy.boundaries import boundary_of
from runtime.gcs_proxy.messages import Body
from runtime.gcs_proxy.refusal import invalid
from runtime.gcs_proxy.resources import Resource, parse_clients

_BEGINNING_LIMIT = 1 << 20
_PIECE_BYTES = 16 << 10
AS_IT_IS = ("", "binary", "8bit", "7bit")
"""What a part's Content-Transfer-Encoding says of bytes that stand there as they are."""
_TEXTS = ("", "utf-8", "us-ascii")
_FIELDS = rb"(?:[!-9;-~]+:[^\r\n]*\r?\n(?:[ \t][^\r\n]*\r?\n)*)*\r?\n"


class MediaPart:
    """The bytes of the object, read as from a Body; behind them stands the closing delimiter and nothing else."""

    def __init__(
        self, body: Body, closing: re.Pattern[bytes], boundary: bytes, read: bytes, fields: bytes
    ) -> None:
        self._body, self._closing, self._longest = body, closing, len(boundary) + 16
        self._ahead, self._over = bytearray(read), False
        self._fields = fields
        self.content_type = _field(fields, "content-type")
        self.raw = b""
        """All that was read of the body before its bytes are asked for."""
        self.begun = bytes(read)
        """What of that is behind the header lines of the object."""
        self.boundary = boundary
        self.delimiter = b"\n--" + boundary
        """With what the next part would begin, or the body end."""
        self._delimiter = re.compile(re.escape(self.delimiter))
        self._seen = b"\n"
        """What came last of the object: a delimiter may begin in it."""

    def plaintext(self) -> MediaPart | Unpacked:
        """Returns what gives the object's bytes, which may be written as text here. Raises Refused (400)."""
        if _field(self._fields, "content-encoding").lower() not in ("", "identity"):
            raise invalid(
                "the object's part has a Content-Encoding: what is compressed has contentEncoding in its JSON"
            )
        coding = _field(self._fields, "content-transfer-encoding").lower()
        if coding not in (*AS_IT_IS, "base64"):
            raise invalid(
                f"the object's Content-Transfer-Encoding is {coding[:60]!r}: of these, base64 and binary are read here"
            )
        return Unpacked(self) if coding == "base64" else self

    def fill(self, view: memoryview) -> int:
        """Fills a buffer as far as the object goes; returns how many bytes came. Raises Refused, Closed."""
        filled = self._filled(view)
        self._refuse_parts(view[:filled])
        return filled

    def _refuse_parts(self, view: memoryview) -> None:
        """Raises Refused where a delimiter is within the object: it ends there by another reading."""
        keep = len(self.delimiter) - 1
        edge = self._seen + bytes(view[:keep])
        if self.delimiter in edge or self._delimiter.search(view):
            raise invalid("the multipart body has more parts than JSON and the object")
        self._seen = (edge + bytes(view[keep:][-keep:]))[-keep:]

    def _filled(self, view: memoryview) -> int:
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


class Unpacked:
    """The bytes of an object that comes in base64, lines of any length: Cloud Storage unpacks it, too."""

    def __init__(self, part: MediaPart) -> None:
        self._part, self._text, self._data = part, b"", bytearray()
        self._piece = memoryview(bytearray(_PIECE_BYTES))
        self._over = self._ended = False

    def fill(self, view: memoryview) -> int:
        """Fills a buffer as far as the object goes; returns how many bytes came. Raises Refused, Closed."""
        filled = 0
        while filled < len(view):
            if not self._data and not self._more():
                break
            taken = min(len(view) - filled, len(self._data))
            view[filled : filled + taken] = self._data[:taken]
            del self._data[:taken]
            filled += taken
        return filled

    def _more(self) -> bool:
        """Unpacks some; tells whether there was any."""
        while not self._over and not self._data:
            came = self._part.fill(self._piece)
            self._over = came < len(self._piece)
            text = self._text + bytes(self._piece[:came]).translate(None, b" \t\r\n")
            whole = len(text) if self._over else len(text) // 4 * 4
            if whole and self._ended:
                raise invalid("the object's base64 goes on behind its end")
            try:
                self._data += base64.b64decode(text[:whole], validate=True)
            except (ValueError, binascii.Error) as error:
                raise invalid("the object is no base64, which its Content-Transfer-Encoding says") from error
            self._ended, self._text = text[:whole].endswith(b"="), text[whole:]
        return bool(self._data)


def open_related(body: Body, content_type: str) -> tuple[Resource, MediaPart]:
    """Reads the JSON of a multipart/related body; returns it and the part behind it. Raises Refused (400), Closed."""
    plain_boundary = boundary_of(
        content_type, "the body of a multipart upload", "multipart/related", "multipart/mixed"
    )
    boundary = re.escape(plain_boundary)
    # A part has header lines, or none: then it begins with the empty line.
    opening = re.compile(
        rb"\s*--" + boundary + rb"[ \t]*(?P<line>\r?\n)(?P<first>" + _FIELDS + rb")(?P<json>(?s:.*?))(?P=line)--"
        + boundary + rb"[ \t]*\r?\n(?P<second>" + _FIELDS + rb")"
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
    _refuse_unreadable(bytes(found["first"]))
    resource = parse_clients(bytes(found["json"]))
    part = MediaPart(body, closing, plain_boundary, bytes(read[found.end() :]), bytes(found["second"]))
    part.raw = bytes(read)
    return resource, part


def _refuse_unreadable(fields: bytes) -> None:
    """Raises Refused where the JSON is text of another kind than is read here: it could name another object then."""
    coding = _field(fields, "content-transfer-encoding").lower()
    charset = re.search(r"(?i);\s*charset\*?\s*=\s*\"?([^\s;\"]*)", _field(fields, "content-type"))
    if coding not in AS_IT_IS or (charset and charset[1].lower() not in _TEXTS):
        raise invalid("the JSON of a multipart upload is UTF-8, and stands there as it is")


def _field(fields: bytes, name: str) -> str:
    """Returns the value of a part's header. Raises Refused (400) where there are two."""
    whole = re.sub(rb"\r?\n[ \t]+", b" ", fields)
    values = re.findall(rb"(?im)^%s:[ \t]*([^\r\n]*)" % name.encode(), whole)
    if len(values) > 1:
        raise invalid(f"a part of the multipart body has the header {name} twice")
    return values[0].decode("latin-1").strip() if values else ""
