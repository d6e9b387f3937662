"""Brings home what a worker wrote on a host into the run's folder, file by file, over SFTP."""

from __future__ import annotations

import posixpath
import tempfile
from collections.abc import Iterator, Sequence

from runtime.contract.errors import Problem
from runtime.contract.names import RESULTS_FOLDER, TENSORBOARD_FOLDER, TRACES_FOLDER, XLA_DUMPS_FOLDER
from tasks.cloud.ssh import Pool
from tasks.cloud.ssh_endpoint import Host
from tasks.cloud.ssh_errors import SshError
from tasks.cloud.ssh_link import Link
from tasks.cloud.storage import Folder

FETCHED = (RESULTS_FOLDER, TENSORBOARD_FOLDER, TRACES_FOLDER, XLA_DUMPS_FOLDER)
"""Checkpoints stay where they were written: they are large, and nobody reads them."""

_DEEPEST = 12


def fetch(pool: Pool, hosts: Sequence[Host], there: str, into: Folder) -> list[Problem]:
    """Copies the run's folder `there`, which all `hosts` share, from the first that answers."""
    failed: list[SshError] = []
    for host in hosts:
        try:
            pool.call(host.endpoint, lambda link: _fetch_all(link, there, into))
        except SshError as error:
            failed.append(error)
        else:
            return []
    told = "; ".join(str(error) for error in failed[:3])
    return [Problem("error", None, f"what workers wrote to {there} could not be fetched: {told}")]


def _fetch_all(link: Link, there: str, into: Folder) -> None:
    for folder in FETCHED:
        for name, size in _files(link, posixpath.join(there, folder), folder):
            with tempfile.NamedTemporaryFile(prefix="slicebench-") as file:
                link.download(posixpath.join(there, name), file, size)
                file.flush()
                into.upload(file.name, name)


def _files(link: Link, path: str, name: str, depth: int = 0) -> Iterator[tuple[str, int]]:
    """Yields name in the run's folder and size of all files below `path`; nothing when it is not there."""
    try:
        entries = list(link.names(path))
    except FileNotFoundError:
        return
    for entry, is_folder, size in entries:
        # The host says what its files are called: none may lead out of the run's folder.
        if "/" in entry or entry in (".", "..", ""):
            continue
        inner = f"{name}/{entry}"
        if is_folder and depth < _DEEPEST:
            yield from _files(link, posixpath.join(path, entry), inner, depth + 1)
        elif not is_folder:
            yield inner, size
