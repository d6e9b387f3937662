"""Refuses what two servers may read in two ways: it would be checked by one reading, and done by the other."""

from __future__ import annotations

import re

from runtime.gcs_proxy.messages import Request
from runtime.gcs_proxy.refusal import invalid
from runtime.gcs_proxy.server import Client

_METHODS = ("x-http-method-override", "x-http-method", "x-method-override")
_ONCE = (
    "content-type",
    "content-range",
    "range",
    "x-goog-copy-source",
    "x-amz-copy-source",
    "x-upload-content-type",
    "x-upload-content-length",
)
BODILESS = frozenset(("GET", "HEAD", "DELETE"))
_BOUNDARY = re.compile(r"(?i)[;\s]boundary\*?[0-9]*\*?\s*=")


def refuse_two_readings(request: Request) -> None:
    """Raises Refused where the head of a request says its method by a header, or one thing twice."""
    if any(request.headers.has(name) for name in _METHODS):
        raise invalid("a request says what it is by its method alone")
    if twice := next((name for name in _ONCE if len(request.headers.all(name)) > 1), None):
        raise invalid(f"the header {twice} is given twice")
    if len(_BOUNDARY.findall(request.headers.get("content-type"))) > 1:
        raise invalid("the body has two boundaries")


def refuse_body(client: Client) -> None:
    """Raises Refused where a request that needs no body has one: it would go up as it is. Raises Closed."""
    if client.request.method in BODILESS and client.body.read_into(memoryview(bytearray(1))):
        raise invalid(f"{client.request.method} has no body here: it would not be encrypted")


class OneEnd:
    """Sees the rest of a multipart body go by, of which one delimiter is to come: there is no third part in it."""

    def __init__(self, delimiter: bytes, begun: bytes) -> None:
        """`begun`: what was read of the last part already."""
        # Behind the header lines, too, there is the end of a line.
        self._delimiter, self._tail, self._found = delimiter, b"\n", 0
        self.see(begun)

    def see(self, piece: bytes | memoryview) -> None:
        """Takes the next piece. Raises Refused at a second delimiter."""
        seen = self._tail + bytes(piece)
        self._found += seen.count(self._delimiter)
        self._tail = seen[-(len(self._delimiter) - 1) :]
        if self._found > 1:
            raise invalid("the multipart body has more parts than JSON and the object")
