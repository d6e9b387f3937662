"""Who we are for a registry: Google's access token for Google's, what `docker login` wrote down, else nobody."""

from __future__ import annotations

import base64
import binascii
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tasks.cloud.google_login import google_login, renew
from tasks.cloud.image_names import ImageName
from tasks.cloud.registry_errors import is_google

_GOOGLE_USER = "oauth2accesstoken"
"""The user by which Google's registries take an access token for a password."""


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
    from google.auth.exceptions import GoogleAuthError

    try:
        credentials = google_login()
        renew(credentials)
    except GoogleAuthError:
        return None  # public images need none; whoever is refused is told to log in
    return Login(_GOOGLE_USER, str(credentials.token))


@contextmanager
def engine_logins(names: Sequence[ImageName], builder: str) -> Iterator[Path | None]:
    """Yields a folder with the logins (config.json) that an engine lacks: Google's, where nobody wrote them down.

    None: it has what there is. The file is for us alone, and is deleted afterwards.
    """
    google = {
        name.host: login
        for name in names
        if is_google(name.host)
        and not any(_helped(file, name) for file in config_files())
        and (login := login_for(name)) is not None
        and login.user == _GOOGLE_USER
    }
    if not google:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="slicebench-login-") as folder:
        # All that the engine would have read is kept: it reads this one instead.
        files = [file for file in config_files() if file.is_file()]
        own = [file for file in files if (file.name == "config.json") is (builder == "docker")]
        content = read_config(own[0]) if own else {}
        auths = {host: {"auth": login.basic.removeprefix("Basic ")} for host, login in google.items()}
        content["auths"] = {**(content.get("auths") or {}), **auths}
        if own and builder == "docker":
            for other in own[0].parent.iterdir():
                if other.name != "config.json":
                    (Path(folder) / other.name).symlink_to(other)
        file = Path(folder) / "config.json"
        file.touch(mode=0o600)
        file.write_text(json.dumps(content))
        yield Path(folder)


def _helped(file: Path, name: ImageName) -> bool:
    """Whether an engine knows a login for a registry by itself: written down, or by a helper."""
    config = read_config(file)
    return any(name.host in (config.get(key) or {}) for key in ("auths", "credHelpers"))
