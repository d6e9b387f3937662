"""Manifests of what is installed into clusters: fetched from an address or file, held against a hash, read.

Nothing is believed that is not known by its hash: the one that is given, or else the one that was written down on this
machine when that release was first seen.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

from runtime.contract.errors import BadInput, InfrastructureError
from runtime.contract.loopback import is_loopback
from tasks.cloud.calls import UNANSWERED, calling
from tasks.cloud.disk import on_disk
from tasks.cloud.kubernetes_kinds import Object
from tasks.cloud.timing import Timing, pauses
from tasks.cloud.waits import tried

LARGEST = 32 << 20
"""Bytes that manifests may have; those of Kueue are about two million."""
_REDIRECTS = 5
_ELSEWHERE = "set SLICEBENCH_HOME to a folder on another disk"
_TIMING = Timing(try_s=60.0, total_s=60.0, first_pause_s=0.5, longest_pause_s=5.0)


@dataclass(frozen=True)
class Wanted:
    """A release of something. `address` is https://… or a file; `sha256` None: as when it was first seen."""

    name: str
    version: str
    address: str
    sha256: str | None = None


@dataclass(frozen=True)
class Manifests:
    """What a release is made of. `seen_first`: no hash was known of it until now."""

    wanted: Wanted
    sha256: str
    content: bytes
    seen_first: bool = False

    @cached_property
    def objects(self) -> Sequence[Object]:
        """The objects of it. Reading those of Kueue takes a second. Raises BadInput."""
        return _objects(self.content, self.wanted)


class _Answered(InfrastructureError):
    """The address answered with something else than the manifests."""


def fetch(wanted: Wanted, known: Path, timing: Timing | None = None) -> Manifests:
    """Returns the manifests of a release. `known` is the folder where hashes of releases are written down.

    Raises BadInput when they hash to something else or are no manifests, InfrastructureError when they cannot be had.
    """
    note = known / f"{wanted.name}-{wanted.version}.sha256"
    expected = wanted.sha256 or (_read(note) or b"").decode().strip() or None
    if expected is not None and (kept := _kept(known, expected)) is not None:
        return Manifests(wanted, expected, kept)
    content = _content(wanted, timing or _TIMING)
    sha256 = hashlib.sha256(content).hexdigest()
    if expected is not None and sha256 != expected:
        raise _other_hash(wanted, sha256, expected, note)
    found = Manifests(wanted, sha256, content, seen_first=expected is None)
    assert found.objects  # what cannot be read is refused now, and neither kept nor known
    _write(known / f"{sha256}.yaml", content)
    if expected is None:
        _write(note, f"{sha256}\n".encode())
    return found


def _kept(known: Path, sha256: str) -> bytes | None:
    """Returns what was fetched before, if it still is what it was."""
    content = _read(known / f"{sha256}.yaml")
    return content if content is not None and hashlib.sha256(content).hexdigest() == sha256 else None


def _other_hash(wanted: Wanted, sha256: str, expected: str, note: Path) -> BadInput:
    what = f"the manifests of {wanted.name} {wanted.version} from {wanted.address} have the SHA-256 {sha256}"
    if wanted.sha256:
        return BadInput(
            f"{what}, and not {expected}: nothing was applied", fix="give the right hash, or address"
        )
    return BadInput(
        f"{what}; when they were first seen it was {expected}: nothing was applied",
        fix=f"find out why they changed; if that is right, give the new hash, or delete {note}",
    )


def _content(wanted: Wanted, timing: Timing) -> bytes:
    if not wanted.address.startswith(("http://", "https://")):
        return _of_file(wanted)
    doing = f"fetch the manifests of {wanted.name} {wanted.version}"
    for pause in pauses(timing, f"http: {doing}"):
        try:
            with calling("http", doing, timing.try_s):
                return _download(wanted.address, wanted, timing)
        except _Answered:
            raise
        except InfrastructureError as error:
            if pause is None:
                raise
            tried(str(error))
            time.sleep(pause)
    raise AssertionError("the last pause is None")


def _of_file(wanted: Wanted) -> bytes:
    try:
        with Path(wanted.address).expanduser().open("rb") as file:
            content = file.read(LARGEST + 1)
    except OSError as error:
        raise BadInput(f"the manifests of {wanted.name} cannot be read: {error}") from error
    if len(content) > LARGEST:
        raise BadInput(f"{wanted.address} has more than {LARGEST >> 20} MiB: these are no manifests")
    return content


def _download(address: str, wanted: Wanted, timing: Timing) -> bytes:
    import httpx2

    what = f"cannot fetch the manifests of {wanted.name} {wanted.version} from {address}"
    deadline = time.monotonic() + timing.try_s
    try:
        with httpx2.Client(timeout=httpx2.Timeout(timing.try_s, connect=10.0)) as client:
            for _ in range(_REDIRECTS + 1):
                _check_safe(address, what)
                with client.stream("GET", address) as answer:
                    if answer.has_redirect_location:
                        address = urljoin(address, answer.headers["Location"])
                        continue
                    if answer.status_code >= 500 or answer.status_code == 429:
                        raise InfrastructureError(f"{what}: HTTP status {answer.status_code}")
                    if answer.status_code != 200:
                        raise _Answered(
                            f"{what}: HTTP status {answer.status_code}: is there such a release? "
                            "Give another version, or the address or file where its manifests are"
                        )
                    return _bounded(answer.iter_bytes(), deadline, what)
    except httpx2.TransportError as error:
        raise InfrastructureError(f"{what}: {str(error) or type(error).__name__}; {UNANSWERED}") from error
    raise _Answered(f"{what}: it is redirected more than {_REDIRECTS} times")


def _bounded(pieces: Any, deadline: float, what: str) -> bytes:
    content = bytearray()
    for piece in pieces:
        content += piece
        if len(content) > LARGEST:
            raise _Answered(f"{what}: it has more than {LARGEST >> 20} MiB")
        if time.monotonic() > deadline:
            raise InfrastructureError(f"{what}: it takes too long")
    return bytes(content)


def _check_safe(address: str, what: str) -> None:
    """Refuses to fetch in the clear, where anybody on the way could put something else in its place."""
    parts = urlsplit(address)
    if parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or "")):
        return
    raise _Answered(f"{what}: {address} is not https")


def _objects(content: bytes, wanted: Wanted) -> list[Object]:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        found = [one for one in yaml.load_all(content, loader) if one is not None]
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise BadInput(f"{wanted.address} is no YAML: {error}") from error
    for one in found:
        if not isinstance(one, dict) or not isinstance(one.get("metadata"), dict):
            raise BadInput(f"{wanted.address} holds something that is no object of Kubernetes")
        if not (one.get("apiVersion") and one.get("kind") and one["metadata"].get("name")):
            raise BadInput(f"{wanted.address} holds an object without apiVersion, kind or name")
    if not found:
        raise BadInput(f"{wanted.address} holds no objects")
    return found


def _read(path: Path) -> bytes | None:
    with on_disk("read what manifests hashed to", _ELSEWHERE):
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None


def _write(path: Path, content: bytes) -> None:
    """Writes a file as a whole or not at all."""
    with on_disk(f"keep manifests in {path.parent}", _ELSEWHERE):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            Path(name).replace(path)
        except OSError:
            Path(name).unlink(missing_ok=True)
            raise
