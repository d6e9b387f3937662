"""What registries answer when they refuse, told apart by what the caller does next.

RegistryError           (InfrastructureError)
├── NotThere            no such repository, tag, digest or upload
├── Denied              log in, or be granted something
├── Rejected            the request is wrong: the same one will never be taken
└── Unavailable         nobody knows whether it happened: look, then ask again
    ├── Throttled       it did not happen: wait, ask again
    └── Nameless        it did not happen: nobody knows the host's name, which is asked again for a moment only
"""

from __future__ import annotations

import json
import re

from runtime.contract.errors import InfrastructureError
from tasks.cloud.image_names import ImageName


class RegistryError(InfrastructureError):
    """A registry answered with an error, or not at all."""


class NotThere(RegistryError):
    """It is not there."""


class Denied(RegistryError):
    """The caller may not, or is nobody."""


class Rejected(RegistryError):
    """The registry calls the request wrong."""


class Unavailable(RegistryError):
    """No answer, or none that tells whether it happened. `wait_s`: how long the registry asks us to wait."""

    wait_s: float | None = None


class Throttled(Unavailable):
    """Too many requests: this one was not carried out."""


class Nameless(Unavailable):
    """The host's name stands for no address: it is wrong, or whoever tells names does not answer."""


_GOOGLE = re.compile(r"(?:[a-z0-9-]+\.)?gcr\.io|[a-z0-9-]+-docker\.pkg\.dev")


def is_google(host: str) -> bool:
    """Whether a host is Google's Artifact Registry, or Container Registry: it is given Google's tokens, no other is."""
    return _GOOGLE.fullmatch(host) is not None


def error_for(status: int, body: bytes, name: ImageName, doing: str) -> RegistryError:
    """Returns the error that an answer stands for; `doing` completes "cannot …"."""
    code, message = _told(body)
    what = f"cannot {doing}: {message or f'HTTP {status}'}"
    if status == 404:
        return NotThere(what)
    if status in (401, 403) or code in ("UNAUTHORIZED", "DENIED"):
        return Denied(f"{what}: {_who(name)}")
    if status == 429 or code == "TOOMANYREQUESTS":
        return Throttled(f"{what}: {name.host} takes no more requests for now; log in, or wait")
    if status >= 500 or status in (408, 425):
        return Unavailable(what)
    return Rejected(what)


def _told(body: bytes) -> tuple[str, str]:
    """Returns code and message of an answer; both empty when it is of another form."""
    try:
        first = json.loads(body)["errors"][0]
        return str(first.get("code", "")), str(first.get("message") or first.get("code", ""))[:300]
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        return "", ""


def _who(name: ImageName) -> str:
    if is_google(name.host):
        return (
            "log in (gcloud auth application-default login), create the repository, or grant "
            "roles/artifactregistry.writer to push, .reader to pull"
        )
    return f"does it exist? If so: docker login {name.host}"
