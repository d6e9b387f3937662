"""Whether a folder could be written, told by looking alone: for who may make nothing, not even for a moment."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.contract.errors import InfrastructureError, Problem
from tasks.cloud.calls import Unanswered
from tasks.cloud.storage import Folder, unwritable

if TYPE_CHECKING:
    from tasks.cloud.gs_storage import GsFolder

_KERNELS_OWN = frozenset(
    {"proc", "sysfs", "cgroup", "cgroup2", "devpts", "debugfs", "tracefs", "securityfs", "mqueue", "bpf"}
)
"""File systems in which nobody makes folders, though permissions say that root may."""

_OBJECTS = tuple(f"storage.objects.{verb}" for verb in ("create", "delete", "get", "list"))


def may_write(folder: Folder) -> Problem | None:
    """Returns what `probe_writable` would find wrong, as far as that can be seen without writing, or None.

    A full disk, a quota and a rule on single objects are seen by writing only. Raises Unanswered.
    """
    from tasks.cloud.gs_storage import GsFolder

    try:
        why = _why_not_bucket(folder) if isinstance(folder, GsFolder) else _why_not(Path(folder.uri))
    except Unanswered:
        raise
    except InfrastructureError as error:
        why = str(error)
    return unwritable(folder, why) if why else None


def _why_not_bucket(folder: GsFolder) -> str:
    granted = folder.granted(_OBJECTS)
    lacking = [] if granted is None else sorted(set(_OBJECTS) - granted)
    return f"gs://{folder.bucket}: you lack {', '.join(lacking)}" if lacking else ""


def _why_not(path: Path) -> str:
    """Looks at the innermost folder that is there, below which the rest would be made."""
    try:
        there = next(one for one in (path, *path.parents) if one.exists())
    except OSError as error:
        return f"{error.filename or path}: {error.strerror}"
    if not there.is_dir():
        return f"{there}: {os.strerror(errno.ENOTDIR)}"
    if os.statvfs(there).f_flag & os.ST_RDONLY:
        return f"{there}: {os.strerror(errno.EROFS)}"
    if not os.access(there, os.W_OK | os.X_OK):
        return f"{there}: {os.strerror(errno.EACCES)}"
    kind = _file_system(there)
    return f"{there}: nobody makes folders in a file system of type {kind}" if kind in _KERNELS_OWN else ""


def _file_system(path: Path) -> str:
    """Returns the type of the file system that a folder lies on; empty where the kernel does not say."""
    import psutil

    mounts = [
        (len(part.mountpoint), place, part.fstype)
        for place, part in enumerate(psutil.disk_partitions(all=True))
        if path.resolve().is_relative_to(part.mountpoint)
    ]
    return max(mounts)[2] if mounts else ""  # a later mount covers an earlier one
