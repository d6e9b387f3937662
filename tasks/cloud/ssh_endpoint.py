"""Endpoint: whom to connect to over SSH and with what; the address book of those that leases speak of."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tasks.cloud.local_storage import replacing


@dataclass(frozen=True)
class Endpoint:
    """One host. `keys` are private key files, offered in order and nothing else, but for `agent`'s and
    those in ~/.ssh (`default_keys`).

    `host_key` ("ssh-ed25519 AAAA…") pins the host; without it `known_hosts`, a file, must know it. `jump` is
    the host through which this one is reached; it is verified likewise. Holds no secret.
    """

    address: str
    user: str
    port: int = 22
    keys: tuple[str, ...] = ()
    host_key: str | None = None
    known_hosts: str | None = None
    agent: bool = False
    default_keys: bool = False
    jump: Endpoint | None = None

    def __str__(self) -> str:
        address = f"[{self.address}]" if ":" in self.address else self.address
        return f"{self.user}@{address}:{self.port}"


class AddressBook:
    """Endpoints by their name, in a folder: how a reaper finds the hosts that a ledger only names."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def remember(self, endpoint: Endpoint) -> None:
        """Writes an endpoint down; what was known under its name is replaced."""
        content = json.dumps(asdict(endpoint), indent=1, sort_keys=True).encode()
        file = self._file(str(endpoint))
        if file.is_file() and file.read_bytes() == content:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        with replacing(file) as stream:
            stream.write(content)

    def find(self, name: str) -> Endpoint | None:
        """Returns the endpoint of that name, or None when this machine does not know it."""
        try:
            return _endpoint(json.loads(self._file(name).read_bytes()))
        except (FileNotFoundError, ValueError, TypeError):
            return None

    def _file(self, name: str) -> Path:
        return self._folder / f"{hashlib.sha256(name.encode()).hexdigest()[:24]}.json"


def _endpoint(fields: dict[str, Any]) -> Endpoint:
    jump = _endpoint(fields["jump"]) if fields.get("jump") else None
    return Endpoint(**{**fields, "keys": tuple(fields["keys"]), "jump": jump})
