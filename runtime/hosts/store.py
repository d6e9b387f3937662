"""Lays out files on a host from a store where each lies once, under its hash; sent as steward.py is.

What is in the store need not be sent again, whichever run brought it. It is looked at before it is believed.
"""

# Each call is a process of its own, and pathlib is slow to import.
# ruff: noqa: PTH103, PTH105, PTH107, PTH111, PTH116, PTH117, PTH118, PTH120, PTH123, PTH208

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tarfile
import time
import uuid
from typing import Any

_KEPT_S = 30 * 86400.0


def missing(store: str, digests: list[str]) -> dict[str, Any]:
    """Returns which of the files of these SHA-256 are not in the store, or not sound."""
    store = os.path.expanduser(store)
    return {"missing": [digest for digest in digests if _digest(os.path.join(store, digest)) != digest]}


def lay(store: str, archive: str, into: str, files: dict[str, str]) -> dict[str, Any]:
    """Takes what an archive holds into the store, and lays out `files` (name → SHA-256) in a new folder."""
    store = os.path.expanduser(store)
    os.makedirs(store, mode=0o700, exist_ok=True)
    if archive:
        with tarfile.open(archive) as members:
            for member in members:
                content = members.extractfile(member)
                if content is not None and member.name in files.values():
                    _keep(os.path.join(store, member.name), content.read())
        os.remove(archive)
    _forget_old(store)
    shutil.rmtree(into, ignore_errors=True)
    for name, digest in files.items():
        if os.path.isabs(name) or ".." in name.split("/"):
            raise ValueError(f"{name!r} leads out of the folder")
        path = os.path.join(into, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        # Copied, not linked: what one run does to its files must not reach another's.
        shutil.copyfile(os.path.join(store, digest), path)
        os.utime(os.path.join(store, digest))
    return {}


def _keep(path: str, content: bytes) -> None:
    temporary = f"{path}.{uuid.uuid4().hex}"
    with open(temporary, "wb") as file:
        file.write(content)
    os.replace(temporary, path)


def _forget_old(store: str) -> None:
    """Deletes what no run has used for long."""
    for name in os.listdir(store):
        with contextlib.suppress(FileNotFoundError):
            if time.time() - os.stat(os.path.join(store, name)).st_mtime > _KEPT_S:
                os.remove(os.path.join(store, name))


def _digest(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except OSError:
        return ""


OPERATIONS = {"missing": missing, "lay": lay}
