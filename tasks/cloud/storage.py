"""Folders that may lie on this machine or in Cloud Storage, behind one small interface."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from runtime.contract.errors import BadInput, InfrastructureError, Problem
from tasks.cloud.calls import Unanswered


class Folder(Protocol):
    """A folder that many may read and write. Names are relative, with forward slashes.

    Every method raises InfrastructureError, naming the file and the system's reason, when the storage fails,
    and BadInput for a name that would lead out of the folder.
    """

    uri: str

    def read(self, name: str, start: int = 0) -> bytes | None:
        """Returns the content, or None when there is no such file.

        From byte `start` on, nothing where it ends before; below zero: as many of its last bytes, or all there are.
        """

    def write(self, name: str, content: bytes) -> None:
        """Replaces the content as a whole: a reader sees the old or the new, never a part."""

    def create(self, name: str, content: bytes) -> bool:
        """Writes only where nothing is; returns False, having changed nothing, when the file exists."""

    def names(self, prefix: str = "") -> Iterator[str]:
        """Yields the names of all files in the folder `prefix` and below, sorted, relative to this folder."""

    def folders(self) -> Iterator[str]:
        """Yields the names of the folders right below this one, sorted, without looking into them."""

    def delete(self, name: str) -> None:
        """Deletes a file; a missing one is no error."""

    def child(self, name: str) -> Folder:
        """Returns the folder below this one."""

    def upload(self, source: str, name: str) -> None:
        """Copies a local file in."""


_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
_GS = r"gs://(?P<bucket>[a-z0-9][a-z0-9._-]{1,220}[a-z0-9])(?:/(?P<prefix>.*))?"


def open_folder(uri: str) -> Folder:
    """Opens a path or gs://bucket/prefix. Makes nothing. Raises BadInput for another scheme."""
    if not uri or "\0" in uri:
        raise BadInput(f"{uri!r} is no folder", fix="write a path or gs://bucket/folder")
    scheme = _SCHEME.match(uri)
    if scheme is None:
        from tasks.cloud.local_storage import LocalFolder

        return LocalFolder(Path(uri).expanduser().absolute())
    if scheme[1] != "gs":
        raise BadInput(
            f"{uri}: {scheme[1]}:// is not a storage that slicebench knows", fix="use a path or gs://"
        )
    parts = re.fullmatch(_GS, uri)
    if parts is None:
        raise BadInput(
            f"{uri} names no valid bucket", fix="write gs://bucket/folder, the bucket in lower case"
        )
    from tasks.cloud.gs_storage import GsFolder

    prefix = (parts["prefix"] or "").strip("/")
    return GsFolder(parts["bucket"], checked_name(prefix) if prefix else "")


def is_there(folder: Folder, name: str) -> bool:
    """Says whether there is such a file, an empty one too; of its content no more than a byte is read."""
    return folder.read(name, -1) is not None


def read_json(folder: Folder, name: str) -> Any:
    """Returns what a JSON file holds; None when it is not there or is damaged. For who goes on without it."""
    try:
        return json.loads(folder.read(name) or b"null")
    except ValueError:
        return None


def sizes_in(folder: Folder, prefix: str) -> Iterator[tuple[str, int]]:
    """Yields name and size in bytes of all files in the folder `prefix` and below. Raises InfrastructureError."""
    from tasks.cloud.local_storage import LocalFolder

    if isinstance(folder, LocalFolder):
        for name in folder.names(prefix):
            yield name, (folder.path / name).lstat().st_size
        return
    from tasks.cloud.gs_storage import GsFolder

    assert isinstance(folder, GsFolder)
    yield from folder.sizes(prefix)


def clear_drafts(folder: Folder) -> int:
    """Deletes what writers that were killed a day ago or earlier left half-written; returns how many files that were.

    A bucket holds no such thing: an object is there when it is whole.
    """
    from tasks.cloud.local_storage import LocalFolder
    from tasks.cloud.local_storage import clear_drafts as clear

    return clear(folder.path) if isinstance(folder, LocalFolder) else 0


def checked_name(name: str) -> str:
    """Returns `name` when it stays within its folder; raises BadInput when it would not."""
    if not name or "\0" in name or any(part in ("", ".", "..") for part in name.split("/")):
        raise BadInput(f"{name!r} is not the name of a file in a folder", fix="use a name without . or ..")
    return name


def probe_writable(folder: Folder) -> Problem | None:
    """Writes, reads back and deletes a marker file; returns what is wrong, or None. Leaves nothing behind.

    Raises Unanswered.
    """
    name, content = f".slicebench-probe-{os.urandom(16).hex()}", os.urandom(16)
    made = _missing_parents(folder.uri)
    try:
        folder.write(name, content)
        if folder.read(name) != content:
            raise InfrastructureError(f"{folder.uri}/{name}: what was written does not read back")
        folder.delete(name)
    except Unanswered:  # which says nothing about whether it could be written
        raise
    except InfrastructureError as error:
        full = isinstance(error.__cause__, OSError) and error.__cause__.errno in (errno.ENOSPC, errno.EDQUOT)
        return replace(unwritable(folder, str(error)), unanswered=full)
    finally:
        for path in made:
            if path.is_dir() and not any(path.iterdir()):
                path.rmdir()
    return None


def unwritable(folder: Folder, why: str) -> Problem:
    """Returns what is told of an output that cannot be written."""
    fix = "name another folder with --output, or give yourself the right to write there"
    return Problem("error", None, f"output {folder.uri} is not writable", why, fix)


def _missing_parents(uri: str) -> list[Path]:
    """Returns the local folders that a write below `uri` has to make, the innermost first."""
    if _SCHEME.match(uri):
        return []
    folder = Path(uri)
    return [path for path in (folder, *folder.parents) if not path.exists()]
