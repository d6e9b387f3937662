"""Who we are for a registry: Google's access token for Google's, what `docker login` wrote down, else nobody."""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tasks.cloud.image_names import ImageName
from tasks.cloud.registry_errors import is_google

_GOOGLE_USER = "oauth2accesstoken"
"""The user by which Google's registries take an access token for a password."""
_SCOPE = "https://www.googleapis.com/auth/cloud-platform"


@dataclass(frozen=True)
class Login:
    """A name and a password. Never shown: not even by repr."""

    user: str
    password: str = field(repr=False)

    @property
    def basic(self) -> str:
        """The value of an Authorization header."""
        return f"Basic {base64.b64encode(f'{self.user}:{self.password}'.encode()).decode()}"


def login_for(name: ImageName, environ: Mapping[str, str] = os.environ) -> Login | None:
    """Returns who we are for an image's registry; None: nobody, which does for what is public.

    What somebody wrote down for this registry wins. Helpers that docker would start are not.
    """
    for file in config_files(environ):
        if (login := _written(file, name)) is not None:
            return login
    return _google() if is_google(name.host) else None


def config_files(environ: Mapping[str, str] = os.environ) -> Iterator[Path]:
    """Yields where docker, podman and buildah keep logins, as far as they are there."""
    home = Path(environ.get("HOME", "/nonexistent"))
    if environ.get("REGISTRY_AUTH_FILE"):
        yield Path(environ["REGISTRY_AUTH_FILE"])
    if environ.get("XDG_RUNTIME_DIR"):
        yield Path(environ["XDG_RUNTIME_DIR"]) / "containers" / "auth.json"
    yield home / ".config" / "containers" / "auth.json"
    yield Path(environ.get("DOCKER_CONFIG") or home / ".docker") / "config.json"


def read_config(file: Path) -> dict[str, Any]:
    """Returns a file of logins; empty when it is not there or is none."""
    try:
        content = json.loads(file.read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _written(file: Path, name: ImageName) -> Login | None:
    auths = read_config(file).get("auths")
    if not isinstance(auths, dict):
        return None
    for key in (name.host, f"https://{name.host}", f"https://index.{name.host}/v1/"):
        entry = auths.get(key)
        if isinstance(entry, dict) and isinstance(entry.get("auth"), str):
            try:
                user, colon, password = base64.b64decode(entry["auth"]).decode().partition(":")
            except (binascii.Error, UnicodeDecodeError):
                continue
            if colon:
                return Login(user, password)
    return None


def _google() -> Login | None:
    """Returns the login with Google's application-default credentials; None where there are none."""
    import google.auth
    from google.auth.exceptions import GoogleAuthError
    from google.auth.transport.requests import Request

    try:
        credentials, _ = google.auth.default(scopes=[_SCOPE])
        credentials.refresh(Request())  # type: ignore[no-untyped-call]
    except GoogleAuthError:
        return None  # public images need none; whoever is refused is told to log in
    return Login(_GOOGLE_USER, str(credentials.token))
