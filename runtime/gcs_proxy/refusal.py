"""What is answered when a request is refused: in the form of the API that was asked, never a 500."""

from __future__ import annotations

import json
from xml.sax.saxutils import escape


class Refused(Exception):
    """A request is answered by us, with an error. 4xx: asking again helps nothing; 503: it may."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status, self.reason, self.message = status, reason, message
        self.headers: list[tuple[str, str]] = []


def invalid(message: str) -> Refused:
    """A request that is not right."""
    return Refused(400, "invalid", message)


def unsupported(message: str) -> Refused:
    """A request that cannot be carried out on encrypted objects."""
    return Refused(400, "notSupportedOnEncryptedObjects", message)


def corrupt(message: str) -> Refused:
    """An object that is not what was written. Not 5xx: clients would ask for it for a quarter of an hour."""
    return Refused(422, "encryptedObjectNotAuthentic", message)


def unsatisfied(size: int) -> Refused:
    """A range that begins behind the end of `size` bytes."""
    refused = Refused(416, "requestedRangeNotSatisfiable", "Request range not satisfiable")
    refused.headers = [("Content-Range", f"bytes */{size}")]
    return refused


def denied(message: str) -> Refused:
    """A key that is not to be had."""
    return Refused(403, "encryptionKeyDenied", message)


def unavailable(message: str) -> Refused:
    """A service that we need does not answer as it should."""
    return Refused(503, "backendError", message)


def as_json(refused: Refused) -> bytes:
    """Returns the body of a refusal as the JSON API has it."""
    one = {"message": refused.message, "domain": "global", "reason": refused.reason}
    error = {"code": refused.status, "message": refused.message, "errors": [one]}
    return json.dumps({"error": error}).encode()


def as_xml(refused: Refused) -> bytes:
    """Returns the body of a refusal as the XML API has it."""
    code = refused.reason[:1].upper() + refused.reason[1:]
    text = f"<Error><Code>{escape(code)}</Code><Message>{escape(refused.message)}</Message></Error>"
    return f"<?xml version='1.0' encoding='UTF-8'?>{text}".encode()
