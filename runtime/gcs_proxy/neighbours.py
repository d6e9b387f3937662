"""Whose program is at the other end of a connection over loopback: the kernel's table of sockets tells."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterable
from pathlib import Path

_TABLES = {socket.AF_INET: Path("/proc/net/tcp"), socket.AF_INET6: Path("/proc/net/tcp6")}
_HELD = frozenset(("01", "04", "05", "08"))
"""States of a socket that a program has and that is connected: established, and closed on one of both sides."""


def is_told() -> bool:
    """Tells whether this kernel has the table; others than Linux have not."""
    return _TABLES[socket.AF_INET].exists()


def is_of_this_user(connection: socket.socket) -> bool:
    """Tells whether a program of this process's user, or of root, holds the other end.

    Of one that has ended meanwhile nobody knows whose it was.
    """
    table = _TABLES.get(connection.family)
    if table is None:
        return False
    try:
        theirs, ours = _place(connection.getpeername()), _place(connection.getsockname())
        lines = table.read_text().splitlines()[1:]
    except OSError:
        return False
    return owner(lines, theirs, ours) in (0, os.geteuid())


def owner(lines: Iterable[str], theirs: str, ours: str) -> int | None:
    """Returns the number of the user that has the socket at `theirs` which is connected to `ours`; None: nobody has.

    `lines` are those of /proc/net/tcp (Documentation/networking/proc_net_tcp.rst), places as they stand there.
    """
    for line in lines:
        _, local, remote, state, _, _, _, user, _, inode, *_ = line.split()
        # The kernel calls what no program has any more root's, and gives it no inode.
        if (local, remote) == (theirs, ours) and state in _HELD and inode != "0":
            return int(user)
    return None


def _place(address: tuple[str, int]) -> str:
    host, port = address[:2]
    packed = socket.inet_pton(socket.AF_INET6 if ":" in host else socket.AF_INET, host)
    words = struct.unpack(f"={len(packed) // 4}I", packed)
    return f"{''.join(f'{word:08X}' for word in words)}:{port:04X}"
