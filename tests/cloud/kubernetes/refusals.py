"""Errors as the API server answers them: a `Status` object with code, reason, message and details."""

from __future__ import annotations

from typing import Any

REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    409: "Conflict",
    410: "Expired",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}

_UNCHECKED = (
    "Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)


class Refused(Exception):
    """A request is answered with an error `Status`."""

    def __init__(
        self, code: int, message: str, *, reason: str | None = "", details: dict[str, Any] | None = None
    ) -> None:
        """`reason` is that of the code where it is empty, and None for an answer that has none."""
        super().__init__(message)
        self.code, self.message = code, message
        self.reason = REASONS.get(code, "") if reason == "" else reason
        self.details = details or {}

    def status(self) -> dict[str, Any]:
        """Returns the object that is sent."""
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason is not None:
            body["reason"] = self.reason
        if self.details:
            body["details"] = self.details
        return {**body, "code": self.code}


def not_found(qualified: str, name: str) -> Refused:
    """Returns the refusal for an object that is not there; `qualified` is `plural.group`."""
    return Refused(404, f'{qualified} "{name}" not found', details=_details(qualified, name))


def already_exists(qualified: str, name: str) -> Refused:
    """Returns the refusal for a name that is taken."""
    return Refused(
        409, f'{qualified} "{name}" already exists', reason="AlreadyExists", details=_details(qualified, name)
    )


def conflict(qualified: str, name: str, why: str = "") -> Refused:
    """Returns the refusal of a change made to an older version."""
    why = why or "the object has been modified; please apply your changes to the latest version and try again"
    return Refused(
        409,
        f'Operation cannot be fulfilled on {qualified} "{name}": {why}',
        details=_details(qualified, name),
    )


def forbidden(qualified: str, name: str, why: str) -> Refused:
    """Returns the refusal of a built-in admission plugin."""
    return Refused(403, f'{qualified} "{name}" is forbidden: {why}', details=_details(qualified, name))


def denied(webhook: str, why: str) -> Refused:
    """Returns the refusal of Kueue's webhooks."""
    return Refused(403, f'admission webhook "{webhook}" denied the request: {why}')


def undecoded(webhook: str, why: str) -> Refused:
    """Returns the refusal of a webhook that cannot read what it is asked about."""
    return Refused(400, f'admission webhook "{webhook}" denied the request: {why}', reason=None)


def invalid_by(webhook: str, refused: Refused) -> Refused:
    """Returns the refusal of JobSet's webhook, which calls an object invalid as the server itself does."""
    refused.message = f'admission webhook "{webhook}" denied the request: {refused.message}'
    return refused


def unshaped(kind: str, group: str, name: str, causes: list[tuple[str, str, str]]) -> Refused:
    """Returns the refusal of a custom object by its definition: other rules are looked at only when it has the form."""
    return invalid(kind, group, name, [*causes, ("<nil>", "FieldValueInvalid", _UNCHECKED)])


def invalid(kind: str, group: str, name: str, causes: list[tuple[str, str, str]]) -> Refused:
    """Returns the refusal of an object with wrong fields; causes are (field, type, message)."""
    told = list(dict.fromkeys(f"{field}: {message}" for field, _, message in causes))
    text = told[0] if len(told) == 1 else f"[{', '.join(told)}]"
    full = f"{kind}.{group}" if group else kind
    return Refused(
        422,
        f'{full} "{name}" is invalid: {text}',
        details={
            "name": name,
            **({"group": group} if group else {}),
            "kind": kind,
            "causes": [{"reason": why, "message": message, "field": field} for field, why, message in causes],
        },
    )


def webhook_down(webhook: str, service: str, path: str) -> Refused:
    """Returns what any write answers while the controller behind a webhook is not there."""
    why = f'failed calling webhook "{webhook}": failed to call webhook: '
    why += f'Post "https://{service}.svc:443{path}?timeout=10s": dial tcp 10.96.0.10:443: connect: connection refused'
    return Refused(500, f"Internal error occurred: {why}", details={"causes": [{"message": why}]})


def expired(wanted: str, oldest: int) -> Refused:
    """Returns the refusal of a resource version that is no longer remembered."""
    return Refused(410, f"too old resource version: {wanted} ({oldest})")


def _details(qualified: str, name: str) -> dict[str, Any]:
    plural, _, group = qualified.partition(".")
    return {"name": name, **({"group": group} if group else {}), "kind": plural}
