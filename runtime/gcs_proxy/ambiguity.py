"""Refuses what two servers may read in two ways: it would be checked by one reading, and done by the other."""

from __future__ import annotations

import re
from collections.abc import Iterable

from runtime.gcs_proxy.hosts import INTERCEPTED, is_store
from runtime.gcs_proxy.messages import Request
from runtime.gcs_proxy.refusal import Refused, invalid
from runtime.gcs_proxy.routes import Route
from runtime.gcs_proxy.server import Client
from runtime.gcs_proxy.wire import Headers

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
_SAYS_HOW_LONG = (
    "content-length",
    "transfer-encoding",
    "content-range",
    "x-goog-copy-source",
    "x-amz-copy-source",
)
BODILESS = frozenset(("GET", "HEAD", "DELETE"))
_KIND = re.compile(r"(?i)\$?upload_?(?:type|protocol)")
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


def refuse_other_protocols(request: Request, query: Iterable[tuple[str, str]]) -> None:
    """Raises Refused where an upload says what kind it is in another way than by `uploadType` as well."""
    header = next((name for name, _ in request.headers if name.lower().startswith("x-goog-upload-")), "")
    other = next((name for name, _ in query if name != "uploadType" and _KIND.fullmatch(name)), "")
    if header or other:
        raise invalid(
            f"an upload says of what kind it is by uploadType alone, and not by {header or other} as well"
        )


def refuse_signed_body(headers: Headers) -> None:
    """Raises Refused where a request of the XML API vouches for its body, or cuts it into pieces with signatures."""
    for name in ("x-amz-content-sha256", "x-goog-content-sha256"):
        if headers.get(name).upper() not in ("", "UNSIGNED-PAYLOAD"):
            raise invalid(f"{name} is of a body that is not sealed: send UNSIGNED-PAYLOAD, or a token")


def refuse_another_host(headers: Headers) -> None:
    """Raises Refused where Host names a bucket, or Cloud Storage by another name: here, the path names the bucket."""
    host = headers.get("host").lower().partition(":")[0].removesuffix(".")
    if is_store(host) and host not in INTERCEPTED:
        raise invalid(f"at this address, the path begins with the bucket, and Host is not {host[:80]}")


def refuse_without_length(request: Request, about: Route) -> None:
    """Raises Refused (411) for an upload that does not say how long its body is: it would be taken for an empty one."""
    told = any(map(request.headers.has, _SAYS_HOW_LONG))
    if not told and about.verb != "resumable" and request.method != "DELETE":
        raise Refused(411, "lengthRequired", "an upload needs Content-Length, or a body in chunks")


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
