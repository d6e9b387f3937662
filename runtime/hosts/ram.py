"""Gives a worker a directory in memory on its host, of a size that is there; sent as steward.py is.

The directory is a tmpfs mounted below the worker's own folder, so that it goes with that folder and its lease:
steward.py unmounts what lies below a folder that it removes.
"""

# Each call is a process of its own, and pathlib is slow to import.
# ruff: noqa: PTH103, PTH111, PTH118, PTH123, PTH208

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from typing import Any

Answer = dict[str, Any]

_RUN_S = 30.0


def able() -> Answer:
    """Returns the memory that is free, in bytes, and why nothing can be mounted here; empty: it can be."""
    why = ""
    try:
        _as_root(["true"])
    except OSError as error:
        why = str(error)
    return {"memory": _available(), "why_not": why}


def mount(path: str, size: int, source: str, keep: str) -> Answer:
    """Mounts `size` bytes of memory at a path below an existing folder, unless they are; only we may enter.

    `source` is what the table of mounts calls it. `keep`: of what lies there already, only this stays; empty: all.
    """
    path = os.path.expanduser(path)
    os.makedirs(path, mode=0o700, exist_ok=True)
    if not os.path.ismount(path):
        free = _available()
        if size > free:
            raise OSError(
                errno.ENOMEM,
                f"ram_directory: takes {size >> 20} MiB of memory, and {free >> 20} MiB are free: ask for less",
            )
        options = f"size={size},mode=0700,uid={os.getuid()},gid={os.getgid()},nosuid,nodev"
        _as_root(["mount", "-t", "tmpfs", "-o", options, source, path])
    for name in os.listdir(path) if keep else ():
        if name != keep:
            shutil.rmtree(os.path.join(path, name))
    space = os.statvfs(path)
    return {"path": path, "size": space.f_blocks * space.f_frsize}


def _as_root(command: list[str]) -> None:
    """Runs a command with root's rights, without ever asking for a password."""
    words = command if os.getuid() == 0 else ["sudo", "-n", *command]
    try:
        ran = subprocess.run(
            words, capture_output=True, timeout=_RUN_S, check=False, stdin=subprocess.DEVNULL
        )
    except FileNotFoundError:
        raise OSError(errno.EPERM, f"a directory in memory needs root, and {words[0]} is not there") from None
    if ran.returncode:
        told = " ".join(ran.stderr.decode(errors="replace").split())[-200:]
        raise OSError(errno.EPERM, f"{' '.join(words)} failed, with exit code {ran.returncode}: {told}")


def _available() -> int:
    with open("/proc/meminfo") as stream:
        return next(int(line.split()[1]) for line in stream if line.startswith("MemAvailable")) * 1024


OPERATIONS = {"able": able, "mount": mount}
