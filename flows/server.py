"""Which Prefect server is meant, and how to prove who we are there. Looks at environment and files, asks nobody."""

from __future__ import annotations

import base64
import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from runtime.contract.errors import BadInput, InfrastructureError
from tasks.config.home import home

UP_FILE = "prefect/up.json"
"""In $SLICEBENCH_HOME: what `slicebench up` started and how to reach it. Holds the auth string, hence mode 0600."""


@dataclass(frozen=True)
class Server:
    """Where an API is and how to prove who we are. `source` tells people where we know it from."""

    api_url: str
    source: str
    auth_string: str | None = None
    api_key: str | None = None

    def __post_init__(self) -> None:
        """Raises BadInput for what can be no server's address."""
        try:
            parts = urlsplit(self.api_url)
            parts.port  # noqa: B018 (asking for it is what finds a port that is none)
        except ValueError as error:
            raise no_address(self.api_url, self.source, error) from error
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise no_address(self.api_url, self.source, "it names no host by http or https")

    def __str__(self) -> str:
        return f"the Prefect server at {self.api_url} (from {self.source})"

    @property
    def headers(self) -> dict[str, str]:
        """Returns the header that authenticates, if any is needed."""
        if self.auth_string:
            return {"Authorization": f"Basic {base64.b64encode(self.auth_string.encode()).decode()}"}
        return {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}

    @property
    def is_here(self) -> bool:
        """Whether it is a server on this machine."""
        return urlsplit(self.api_url).hostname in ("127.0.0.1", "localhost", "::1")

    @property
    def ui_url(self) -> str:
        """Returns the address for a browser."""
        return self.api_url.rstrip("/").removesuffix("/api")


def no_address(url: str, source: str, why: object) -> BadInput:
    """Returns the refusal of an address under which no Prefect server can be."""
    return BadInput(
        f"{url!r}, from {source}, is no address of a Prefect server: {why}",
        fix="write it as http://HOST:PORT/api, or leave it out",
    )


def known_server(environ: Mapping[str, str] = os.environ) -> Server | None:
    """Returns the server meant: by environment, else what `slicebench up` started, else the user's profile."""
    auth, key = environ.get("PREFECT_API_AUTH_STRING"), environ.get("PREFECT_API_KEY")
    if url := environ.get("PREFECT_API_URL"):
        return Server(url, "PREFECT_API_URL", auth, key)
    if up := read_up_file():
        return Server(up["api_url"], "slicebench up", up["auth_string"])
    profile = _profile(environ)
    if url := profile.get("PREFECT_API_URL"):
        return Server(
            url,
            "your Prefect profile",
            auth or profile.get("PREFECT_API_AUTH_STRING"),
            key or profile.get("PREFECT_API_KEY"),
        )
    return None


def read_up_file() -> dict[str, Any] | None:
    """Returns what `slicebench up` wrote down, or None when it is not up."""
    try:
        content: dict[str, Any] = json.loads((home() / UP_FILE).read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise InfrastructureError(
            f"{home() / UP_FILE} cannot be read: {error}; delete it, then: slicebench up"
        ) from error
    return content


def _profile(environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the settings of the active Prefect profile; nothing where there is none."""
    folder = Path(environ.get("PREFECT_HOME") or Path.home() / ".prefect")
    path = Path(environ.get("PREFECT_PROFILES_PATH") or folder / "profiles.toml")
    try:
        content = tomllib.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise BadInput(f"{path} is not a Prefect profiles file: {error}") from error
    name = environ.get("PREFECT_PROFILE") or content.get("active")
    settings = content.get("profiles", {}).get(name, {})
    return {key: str(value) for key, value in settings.items()}
