"""Which hosts the forward face stands in for, and which others it connects to."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from runtime.contract.errors import BadInput
from runtime.gcs_proxy.refusal import Refused, invalid

STORAGE, APIS = "storage.googleapis.com", "www.googleapis.com"
INTERCEPTED = (STORAGE, APIS)
"""Hosts that are stood in for; of the first, those below it too: they are buckets of the XML API."""
NEEDED = (
    "oauth2.googleapis.com",
    "sts.googleapis.com",
    "iamcredentials.googleapis.com",
    "accounts.google.com",
)
"""Where clients of Cloud Storage get their tokens."""
_HOST = re.compile(r"[a-z0-9_](?:[a-z0-9._-]{0,251}[a-z0-9_])?|\[[0-9a-f:.]{2,45}\]")
_STORES = re.compile(
    r"(?:.+\.)?(?:(?:[a-z0-9-]+-|commondata|firebase)?storage(?:-[a-z0-9-]+)?\.(?:.+\.)?googleapis\.com|"
    r"(?:content|restricted|private)\.googleapis\.com|storage\.(?:cloud|clients[0-9]*)\.google\.com)"
)
"""All names of Cloud Storage: by one that is not intercepted, plaintext would get there."""


@dataclass(frozen=True)
class Place:
    """A host and port that may be connected to; `below`: the hosts below it instead."""

    host: str
    port: int = 443
    below: bool = False

    def holds(self, host: str, port: int) -> bool:
        """Tells whether it is one."""
        named = host.endswith(f".{self.host}") if self.below else host == self.host
        return named and port == self.port


def parse_place(text: str) -> Place:
    """Returns what HOST, HOST:PORT or *.DOMAIN means. Raises BadInput."""
    found = re.fullmatch(r"(\[[^\]]*\]|[^:]*)(?:(:)(.*))?", text.strip().lower())
    host, colon, port = found.groups("") if found else ("", "", "")
    below = host.startswith("*.")
    host = host.removeprefix("*.")
    if not _HOST.fullmatch(host) or (colon and not _is_port(port)) or (below and "." not in host):
        raise BadInput(f"{text!r} is no host", fix="write HOST, HOST:PORT or *.DOMAIN")
    if not below and is_store(host):
        raise BadInput(f"{text!r} is Cloud Storage: what goes there is not to pass unseen")
    return Place(host, int(port or 443), below)


def is_intercepted(host: str) -> bool:
    """Tells whether the forward face stands in for a host."""
    return host in INTERCEPTED or host.endswith(f".{STORAGE}")


def is_store(host: str) -> bool:
    """Tells whether a host is Cloud Storage, by whatever name."""
    return bool(_STORES.fullmatch(host)) or is_intercepted(host)


def parse_target(target: str) -> tuple[str, int]:
    """Returns host and port of a CONNECT. Raises Refused (400)."""
    host, _, port = target.lower().rpartition(":")
    host = host.removesuffix(".")
    if not _is_port(port) or not _HOST.fullmatch(host):
        raise invalid("CONNECT names a host and a port")
    return host, int(port)


def check_allowed(host: str, port: int, allowed: Sequence[Place]) -> None:
    """Raises Refused (403) for what is not to be connected to."""
    if is_store(host):
        raise Refused(
            403,
            "forbidden",
            f"{host}:{port} is Cloud Storage by a name that is not intercepted here: use {STORAGE}:443",
        )
    if not any(place.holds(host, port) for place in allowed):
        raise Refused(
            403,
            "forbidden",
            f"this proxy connects to no {host}:{port}: --allow {host}{'' if port == 443 else f':{port}'} lets it, and "
            "no_proxy goes around it",
        )


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and 0 < int(text[:6]) < 65536
