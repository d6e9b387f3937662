"""What one container is to do: fetched from the run's folder, checked, and laid out in a folder of its own."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import secrets
import sys
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runtime.contract.errors import BadInput, InfrastructureError
from runtime.contract.names import ATTEMPT_FILE, STREAM_FILE, SUITE_FILE
from runtime.contract.pod import (
    ADDRESS_VARIABLE,
    JOB_VARIABLE,
    RENDEZVOUS_VARIABLE,
    RUN_VARIABLE,
    TOKEN_VARIABLE,
    place_in_pods,
    start_file,
)
from runtime.pods.folder import RunFolder

_PACKAGE = "runtime"


@dataclass(frozen=True)
class Seat:
    """Which worker this is. `rendezvous`: HOST:PORT, at worker 0 with an address of its own."""

    worker: int
    slice_index: int
    rendezvous: str


@dataclass(frozen=True)
class Errand:
    """All lies in `folder` on this host. `renewal` is the name in the run's folder of what the run changes; None: it
    renews nothing. `again`: which attempt it is, the first worker finds out, and its supervisor tells the others'.
    """

    folder: Path
    run: RunFolder
    attempt: int
    worker: int
    renewal: str | None
    again: bool = False

    @property
    def told(self) -> int | None:
        """Which attempt it is; None: nobody has said that."""
        if not self.again or self.worker == 0:
            return self.attempt
        try:
            return int(self.stream.with_name(ATTEMPT_FILE).read_text())
        except FileNotFoundError:
            return None

    @property
    def job(self) -> Path:
        """What the supervisor is told."""
        return self.folder / "job.json"

    @property
    def code(self) -> Path:
        """The folder with the `runtime` package that was sent."""
        return self.folder / "code"

    @property
    def renewed(self) -> Path:
        """The file that is touched whenever the run is seen to live."""
        return self.folder / "renewed"

    @property
    def stream(self) -> Path:
        """What the supervisor says."""
        return self.folder / "scratch" / STREAM_FILE


def seat(environ: Mapping[str, str]) -> Seat:
    """Returns which worker this is, from what Kubernetes says. Raises BadInput when that is no place."""
    worker, slice_index = place_in_pods(environ)
    name, _, port = _wanted(environ, RENDEZVOUS_VARIABLE).rpartition(":")
    address = environ.get(ADDRESS_VARIABLE, "")
    if worker == 0 and address:
        name = f"[{address}]" if ":" in address else address
    return Seat(worker, slice_index, f"{name}:{port}")


def fetch(environ: Mapping[str, str], folder: Path) -> Errand:
    """Lays out in `folder` what this container needs.

    Raises InfrastructureError when the run's folder does not answer or lacks something, BadInput for what is no job.
    """
    run, place = RunFolder(_wanted(environ, RUN_VARIABLE)), seat(environ)
    job = _job(run, _wanted(environ, JOB_VARIABLE))
    renewal, again = job["renewal_file"], bool(job.get("again"))
    attempt = int(job["attempt"])
    if again and place.worker == 0:
        attempt = _new_attempt(run, attempt)
    errand = Errand(folder, run, attempt, place.worker, renewal, again)
    (folder / SUITE_FILE).write_bytes(run.wanted(str(job["suite"])))
    _unpack(str(job["code"]), run.wanted(str(job["code"])), errand.code)
    errand.stream.parent.mkdir()
    local = job | {
        "attempt": attempt,
        "worker": place.worker,
        "slice_index": place.slice_index,
        "rendezvous": place.rendezvous,
        "token": environ.get(TOKEN_VARIABLE, ""),
        "suite": str(folder / SUITE_FILE),
        "code": str(errand.code),
        "output": run.uri,
        "scratch": str(errand.stream.parent),
        "python": job.get("python") or sys.executable,
        "renewal_file": None if renewal is None else str(errand.renewed),
        "local_directory": job.get("local_directory") and f"{job['local_directory']}-w{place.worker:04d}",
    }
    errand.renewed.touch()
    with os.fdopen(os.open(errand.job, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(local, file)
    return errand


def _job(run: RunFolder, name: str) -> dict[str, Any]:
    try:
        job = json.loads(run.wanted(name))
        missing = [key for key in ("attempt", "suite", "code", "renewal_file") if key not in job]
    except (ValueError, TypeError) as error:
        raise BadInput(f"{run.uri}/{name} is no job: {error}") from error
    if not isinstance(job, dict) or missing:
        raise BadInput(f"{run.uri}/{name} is no job: it lacks {', '.join(missing)}")
    return job


def _new_attempt(run: RunFolder, first: int) -> int:
    """Returns which attempt this start is: what earlier ones left must stay, and must not be taken for its own."""
    attempt, mine = first, secrets.token_hex(8).encode()
    while True:
        name = start_file(attempt)
        if run.create(name, mine) or run.read(name) == mine:  # made, though nobody heard of it
            return attempt
        attempt += 1


def _unpack(name: str, content: bytes, into: Path) -> None:
    """Unpacks the code. Its name says what it is to hold: a bucket that others write to is not to be trusted more."""
    named = re.search(r"code-([0-9a-f]{64})\.tgz$", name)
    if named is None or hashlib.sha256(content).hexdigest() != named[1]:
        raise InfrastructureError(f"{name} in the run's folder is not what was written there")
    try:
        _lay_out(content, into, Path(__file__).parents[1])
    except (tarfile.TarError, OSError) as error:
        raise InfrastructureError(f"{name} cannot be unpacked to {into}: {error}") from error


def _lay_out(content: bytes, into: Path, own: Path) -> None:
    """Unpacks an archive. The image's own package stands for the same one that was sent: that one would have to be
    written, and compiled by Python.
    """
    into.mkdir()
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as archive:
        package: list[tarfile.TarInfo] = []
        rest: list[tarfile.TarInfo] = []
        for one in archive.getmembers():
            (package if one.name.partition("/")[0] == _PACKAGE else rest).append(one)
        if package and all(_same(archive, one, own.parent / one.name) for one in package):
            (into / _PACKAGE).symlink_to(own)
            package = []
        archive.extractall(into, [*package, *rest], filter="data")


def _same(archive: tarfile.TarFile, sent: tarfile.TarInfo, own: Path) -> bool:
    content = archive.extractfile(sent) if sent.isreg() else None
    try:
        return content is not None and content.read() == own.read_bytes()
    except OSError:
        return False


def _wanted(environ: Mapping[str, str], variable: str) -> str:
    value = environ.get(variable, "")
    if not value:
        raise BadInput(f"{variable} is not set: this is started by slicebench, in a pod")
    return value
