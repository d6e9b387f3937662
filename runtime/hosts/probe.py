"""Tries out on a host what others will need there: a free port, a folder that they all see; sent as steward.py is."""

# Each call is a process of its own, and pathlib is slow to import.
# ruff: noqa: PTH103, PTH108, PTH106, PTH110, PTH111, PTH112, PTH118, PTH120, PTH123

from __future__ import annotations

import contextlib
import os
import socket
import time
from typing import Any

Answer = dict[str, Any]


def free_port(address: str) -> Answer:
    """Returns a port of this host's address that is free now."""
    with socket.create_server((address, 0)) as server:
        return {"port": server.getsockname()[1]}


def mark(folder: str, name: str) -> Answer:
    """Writes a file into a folder, making the folder, to be looked for elsewhere; says which folders are new."""
    folder = os.path.expanduser(folder)
    new, above = [], folder
    while not os.path.isdir(above):
        new.append(above)
        above = os.path.dirname(above)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "w"):
        pass
    return {"new": new}


def see(folder: str, name: str, patience_s: float) -> Answer:
    """Says whether a file is to be seen, and whether its folder may be written to. Network folders take a moment."""
    path = os.path.join(os.path.expanduser(folder), name)
    until = time.monotonic() + patience_s
    while not os.path.exists(path) and time.monotonic() < until:
        time.sleep(0.1)
    return {"seen": os.path.exists(path), "writable": os.access(os.path.dirname(path), os.W_OK)}


def unmark(folder: str, name: str, new: list[str]) -> Answer:
    """Takes `mark` back."""
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(os.path.expanduser(folder), name))
        for path in new:
            os.rmdir(path)
    return {}


OPERATIONS = {operation.__name__: operation for operation in (free_port, mark, see, unmark)}
