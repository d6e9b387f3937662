"""The boundary of a multipart body: found in one way, and told on in one that no server reads otherwise."""

from __future__ import annotations

import re
from email.message import Message

from runtime.gcs_proxy.refusal import invalid

_LONGEST = 256
_PLAIN = re.compile(r"(?:[ -!#-\[\]-~]*[!#-\[\]-~])?")
"""What stands between quotes as it is."""


def boundary_of(content_type: str, what: str, *kinds: str) -> bytes:
    """Returns the boundary that a header names. Raises Refused (400): `what` is of another of these kinds, or has none.

    Single quotes around it are none of it: gsutil and gcloud write them so, and Cloud Storage takes them for quotes.
    """
    message = Message()
    message["Content-Type"] = content_type
    boundary = message.get_param("boundary")
    if message.get_content_type() not in kinds or not isinstance(boundary, str):
        raise invalid(f"{what} is {' or '.join(kinds)}, with a boundary")
    if len(boundary) > 2 and boundary[0] == boundary[-1] == "'":
        boundary = boundary[1:-1]
    if not 0 < len(boundary) <= _LONGEST or not _PLAIN.fullmatch(boundary):
        raise invalid("the boundary is too long, or has characters that none has")
    return boundary.encode()


def telling(kind: str, boundary: bytes) -> tuple[str, str]:
    """Returns the header that names a boundary."""
    return ("Content-Type", f'{kind}; boundary="{boundary.decode()}"')
