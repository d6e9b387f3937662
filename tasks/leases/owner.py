"""Who owns a lease: this process, told apart from every other; and whether an owner still lives."""

from __future__ import annotations

import getpass
import os
import socket
from functools import cache
from pathlib import Path

from runtime.contract.process import boot_id, started_at
from tasks.leases.lease import Owner


def this_process() -> Owner:
    """Returns this process as the owner of a new claim."""
    pid = os.getpid()
    start = started_at(pid)
    if start is None:
        raise RuntimeError(f"/proc does not know process {pid}, which is this one")
    return Owner(socket.gethostname(), boot_id(), _namespace(), pid, start, _user(), os.urandom(8).hex())


def is_alive(owner: Owner) -> bool | None:
    """Says whether the owner's process lives; None where it cannot be known: on another machine or in another
    container, or on a machine of this name that was started at another time.
    """
    here = (socket.gethostname(), boot_id(), _namespace())
    if (owner.host, owner.boot_id, owner.pid_namespace) != here:
        return None
    return started_at(owner.pid) == owner.started_at


def is_of_another_boot(owner: Owner) -> bool:
    """Says whether the owner's machine has this one's name and was started at another time.

    That is this machine, restarted since, or another one: many are called "vm" or "localhost".
    """
    return owner.host == socket.gethostname() and owner.boot_id != boot_id()


def is_this_process(owner: Owner) -> bool:
    """Says whether the owner is this process, under whatever claim."""
    return owner.pid == os.getpid() and is_alive(owner) is True


@cache
def _namespace() -> str:
    return str(Path("/proc/self/ns/pid").readlink())


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's uid without a name
        return str(os.getuid())
