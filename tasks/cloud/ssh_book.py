"""AddressBook: how to get to the hosts that a ledger only names; for a reaper, which knows no target file."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from runtime.contract.record import record_of
from tasks.cloud.local_storage import replacing
from tasks.cloud.ssh_endpoint import Endpoint, Host


class AddressBook:
    """Hosts by their name, one file each. They hold no secret: keys are named by their files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def remember(self, host: Host) -> None:
        """Writes a host down; what was known under its name is replaced."""
        content = json.dumps(asdict(host), indent=1, sort_keys=True).encode()
        file = self._file(str(host))
        if file.is_file() and file.read_bytes() == content:
            return
        with replacing(file) as stream:
            stream.write(content)

    def find(self, name: str) -> Host | None:
        """Returns the host of that name, or None when this machine does not know it."""
        try:
            fields = json.loads(self._file(name).read_bytes())
            return record_of(Host, fields, endpoint=_endpoint(fields["endpoint"]))
        except (FileNotFoundError, ValueError, TypeError, KeyError):
            return None

    def _file(self, name: str) -> Path:
        return self._folder / f"{hashlib.sha256(name.encode()).hexdigest()[:24]}.json"


def _endpoint(fields: dict[str, Any]) -> Endpoint:
    jump = _endpoint(fields["jump"]) if fields.get("jump") else None
    return record_of(
        Endpoint, fields, keys=tuple(fields["keys"]), jump=jump, proxy=tuple(fields.get("proxy", ()))
    )
