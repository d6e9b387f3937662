"""Brings a bundle to many hosts: once packed, and to each only the files that it does not have by their hash."""

from __future__ import annotations

import hashlib
import io
import posixpath
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from runtime.contract.errors import InfrastructureError
from tasks.cloud.ssh import Pool
from tasks.cloud.ssh_endpoint import Host
from tasks.cloud.ssh_errors import SshError
from tasks.cloud.ssh_link import Link
from tasks.cloud.ssh_steward import Conversation, converse

T = TypeVar("T")

STORE = "store"
"""Below a host's folder: files by their SHA-256, which runs share."""

_UPLOAD_S = 300.0


def upload(
    pool: Pool,
    folders: Mapping[Host, str],
    files: Mapping[str, str],
    then: Callable[[Host, Conversation], T],
) -> Mapping[Host, T | SshError]:
    """Lays out `files` (name → path here) in `<folder>/bundle` on each host, and does there what comes `then`.

    `folders` are there and absolute. All of it is one conversation with each host; returns for each what came of
    it, or its SshError. Raises InfrastructureError when a file here cannot be read.
    """
    try:
        contents = {name: Path(path).read_bytes() for name, path in files.items()}
    except OSError as error:
        raise InfrastructureError(f"{error.filename} cannot be read: {error.strerror}") from error
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    by_digest = {digests[name]: content for name, content in contents.items()}
    packed: dict[frozenset[str], bytes] = {}

    def bring(link: Link, host: Host, talk: Conversation) -> None:
        store, folder = posixpath.join(host.folder, STORE), folders[host]
        missing = talk.ask(
            "missing", program="store", timeout_s=_UPLOAD_S, store=store, digests=sorted(by_digest)
        )["missing"]
        archive = ""
        if missing:
            key = frozenset(missing)
            content = packed.get(key) or packed.setdefault(key, _pack(by_digest, missing))
            archive = posixpath.join(folder, "incoming.tar")
            link.write(archive, content, 0o600)
        into = posixpath.join(folder, "bundle")
        talk.ask(
            "lay",
            program="store",
            timeout_s=_UPLOAD_S,
            store=store,
            archive=archive,
            into=into,
            files=digests,
        )

    def task(host: Host) -> Callable[[Link], T]:
        def do(link: Link) -> T:
            with converse(link, host) as talk:
                bring(link, host, talk)
                return then(host, talk)

        return do

    told = pool.all({host.endpoint: task(host) for host in folders})
    return {host: told[host.endpoint] for host in folders}


def _pack(contents: Mapping[str, bytes], digests: list[str]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=6) as archive:
        for digest in digests:
            member = tarfile.TarInfo(digest)
            member.size = len(contents[digest])
            archive.addfile(member, io.BytesIO(contents[digest]))
    return packed.getvalue()
