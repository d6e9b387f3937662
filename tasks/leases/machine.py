"""This machine under a name that no other has: what nobody else can look at is written down under it."""

from __future__ import annotations

import contextlib
import socket
from functools import cache
from pathlib import Path

_MACHINE_ID = Path("/etc/machine-id")


@cache
def this_machine() -> str:
    """Returns the host's name with the beginning of its machine id: many machines are called `vm` or `localhost`.

    A container without such an id has a name of its own as a rule, so the name alone has to do.
    """
    return name_of(socket.gethostname(), _MACHINE_ID)


def name_of(host: str, file: Path) -> str:
    """Returns how a machine of that name is called whose machine id stands in a file, if it has one."""
    told = ""
    with contextlib.suppress(FileNotFoundError, PermissionError):
        told = file.read_text().strip()
    # systemd writes "uninitialized" into images that get their id at the first boot.
    return f"{host}/{told[:8]}" if told and told != "uninitialized" else host
