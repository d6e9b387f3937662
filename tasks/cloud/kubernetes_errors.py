"""What a Kubernetes API server answers instead of what was asked, told apart by what the caller does next.

KubernetesError         (InfrastructureError)
├── NotFound            the object is not there; only ever when the server says so of that very object
├── NotServed           the cluster does not know the kind: something must be installed
├── PermissionDenied    a person must grant something, or log in
├── Untrusted           the server is not the one it should be: a person must look
├── Refused             the request is wrong: the same one will never be taken
├── AlreadyExists       look whose it is
│   └── Going           what has the name is being deleted: wait, ask again
├── Conflict            the object changed meanwhile, or is another than was meant: look, then ask again
├── Expired             what a watch or a page went on from is no longer known: list anew
└── Unavailable         nobody knows whether it happened: look, then ask again
    └── NotDone         it did not happen: wait, ask again
        ├── Throttled   too many requests
        ├── WebhookDown a controller that must agree does not answer
        └── Unreachable no connection came about
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from runtime.contract.errors import InfrastructureError
from tasks.cloud.google_login import NoLogin

_LONGEST_HEAD, _LONGEST_TAIL = 400, 200
"""Letters of a message that are shown from either end: webhooks print whole specs between what and why."""


class KubernetesError(InfrastructureError):
    """The API server answered with an error, or not at all.

    `answered`: the server said so itself. `after_s` is how long it asks to be left alone. `in_doubt`: the same was
    asked for before, and nobody knows what became of that: it may happen yet.
    """

    answered = False
    after_s: float | None = None
    in_doubt = False


class NotFound(KubernetesError):
    """It is not there."""


class NotServed(KubernetesError):
    """The cluster has no such kind of object."""


class PermissionDenied(KubernetesError):
    """The caller may not, or is nobody."""


class Nobody(PermissionDenied, NoLogin):
    """There is no Google login here, or none that is taken."""


class Untrusted(KubernetesError):
    """The server's certificate is not one that we were told to trust, or ours is none that it does."""


class Refused(KubernetesError):
    """The server calls the request wrong."""


class AlreadyExists(KubernetesError):
    """The name is taken."""


class Going(AlreadyExists):
    """The name is taken by something that is being deleted."""


class Conflict(KubernetesError):
    """The object is not as the request supposes."""


class Expired(KubernetesError):
    """The resource version is too old."""


class Unavailable(KubernetesError):
    """No answer, or none that tells whether it happened."""


class NotDone(Unavailable):
    """Nothing was carried out, which is sure."""


class Throttled(NotDone):
    """Too many requests: this one was not carried out."""


class WebhookDown(NotDone):
    """A webhook that must agree does not answer: nothing was stored."""


class Unreachable(NotDone):
    """No connection came about."""


class Told(NamedTuple):
    """What an answer that is none says. `object_named`: it is one object that the answer speaks of."""

    code: int
    reason: str = ""
    message: str = ""
    object_named: bool = False
    after_s: float | None = None


_BY_REASON: Mapping[str, type[KubernetesError]] = {
    "AlreadyExists": AlreadyExists,
    "Conflict": Conflict,
    "Expired": Expired,
    "Gone": Expired,
    "Timeout": Unavailable,
    "ServerTimeout": Unavailable,
}
_BY_CODE: Mapping[int, type[KubernetesError]] = {
    401: PermissionDenied,
    403: PermissionDenied,
    408: Unavailable,
    409: Conflict,
    410: Expired,
    429: Throttled,
}
_WEBHOOK = "failed calling webhook"
_SERVICE = r"https://([a-z0-9-]+)\.([a-z0-9-]+)\.svc\b"
_MISSHAPEN = "failed to create typed patch object"
"""How a server calls an applied object wrong whose fields are not those of its kind: with a 500, and no reason."""
_ADMISSION = r"(?i)denied the request|exceeded quota|is forbidden: (?!User )"
"""A 403 that is about what was sent, not about who sent it: of a webhook, a quota, or another admission plugin."""


def told_by(code: int, body: bytes, after: str | None = None) -> Told:
    """Reads an answer's Status; what is none is taken as text."""
    after_s = float(after) if after and after.isdigit() else None
    try:
        status: Any = json.loads(body)
    except ValueError:
        status = None
    if not isinstance(status, dict) or status.get("kind") != "Status":
        text = " ".join(body.decode(errors="replace").split())
        return Told(code, message=text, after_s=after_s)
    details = status.get("details") or {}
    if after_s is None and isinstance(details.get("retryAfterSeconds"), int):
        after_s = float(details["retryAfterSeconds"])
    return Told(
        status.get("code") or code,
        status.get("reason") or "",
        status.get("message") or "",
        bool(details.get("name")),
        after_s,
    )


def error_for(told: Told, doing: str, where: str) -> KubernetesError:
    """Returns the error; `doing` completes "cannot …", `where` names the cluster for people."""
    kind = _kind(told)
    message = shortened(told.message or told.reason or f"HTTP status {told.code}")
    error = kind(f"cannot {doing} in {where}: {message}{_advice(kind, told)}")
    error.answered, error.after_s = True, told.after_s
    return error


def _kind(told: Told) -> type[KubernetesError]:
    if told.code == 404:
        return NotFound if told.object_named else NotServed
    if told.code == 403 and re.search(_ADMISSION, told.message):
        return Refused
    if told.code >= 500 and _WEBHOOK in told.message:
        return WebhookDown
    if told.code == 500 and _MISSHAPEN in told.message:
        return Refused
    if kind := _BY_REASON.get(told.reason):
        return kind
    return _BY_CODE.get(told.code) or (Refused if 400 <= told.code < 500 else Unavailable)


def _advice(kind: type[KubernetesError], told: Told) -> str:
    if kind is WebhookDown:
        return f": nothing was made; see whether {_owner(told.message)} runs, and try again"
    if kind is PermissionDenied and told.code == 401:
        return ": the credentials are wrong or have expired: log in again"
    if kind is PermissionDenied:
        return ": ask for a Role with that verb on that resource, and a RoleBinding to whom you log in as"
    return {
        NotServed: ": is what serves this kind installed there, in this version? JobSet and Kueue are not part of "
        "Kubernetes itself",
        Throttled: ": the server is too busy, try again later",
    }.get(kind, "")


def _owner(message: str) -> str:
    """Names whose webhook it is: JobSet and Kueue give theirs the same names, but not the same services."""
    found = re.search(_SERVICE, message)
    if found:
        return f"the service {found.group(1)} in namespace {found.group(2)}"
    return "the controller behind that webhook (namespaces kueue-system and jobset-system)"


def shortened(text: str) -> str:
    """Returns a message of one line, its middle left out where it is long: what is wrong stands at its ends."""
    text = " ".join(text.split())
    if len(text) <= _LONGEST_HEAD + _LONGEST_TAIL + 3:
        return text
    return f"{text[:_LONGEST_HEAD]} … {text[-_LONGEST_TAIL:]}"
