"""What pods fetch from the run's folder: the workers' code as one archive named after its content, and their job."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from runtime.contract.errors import InfrastructureError
from runtime.contract.job import Job
from runtime.contract.names import SUITE_FILE
from runtime.contract.pod import RENEWAL_FILE, code_file, job_file
from tasks.cloud.storage import Folder
from tasks.targets.jobs import Seat, jobs
from tasks.targets.kube_beside import told as told_of
from tasks.targets.types import Bundle, Uploaded

_CODE = "code/"


def send_code(folder: Folder, bundle: Bundle) -> str:
    """Puts the code of a bundle into the run's folder, unless it is there; returns its name."""
    packed = pack(bundle.files)
    name = code_file(hashlib.sha256(packed).hexdigest())
    folder.create(name, packed)
    return name


def pack(files: Mapping[str, str]) -> bytes:
    """Returns the files below `code/` of a bundle (name → path here) as an archive: the same files, the same bytes."""
    packed = io.BytesIO()
    try:
        with (
            gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=6, mtime=0) as zipped,
            tarfile.open(fileobj=zipped, mode="w") as archive,
        ):
            for name in sorted(name for name in files if name.startswith(_CODE)):
                content = Path(files[name]).read_bytes()
                member = tarfile.TarInfo(name.removeprefix(_CODE))
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    except OSError as error:
        raise InfrastructureError(f"{error.filename} cannot be read: {error.strerror}") from error
    return packed.getvalue()


def send_job(
    folder: Folder, uploaded: Uploaded, attempt: int, lease_id: str, lease_s: float, local: str | None
) -> str:
    """Writes what all workers of an attempt are told; returns its name. No secret is in it, and who each of them is, it
    finds out by itself. `local`: a folder in the hosts' memory.
    """
    seat = Seat(SUITE_FILE, uploaded.code, "", "", uploaded.image.python, RENEWAL_FILE, local)
    told = jobs(uploaded, attempt, lease_id, "", lease_s, [seat] * len(uploaded.workers.items))[0]
    followed = uploaded.workload.renewed  # who follows it has each start be an attempt with a job of its own
    renewal = RENEWAL_FILE if followed else None
    job: Job = replace(
        told, token="", env={}, renewal_file=renewal, again=not followed, sidecar=told_of(told.sidecar)
    )
    folder.write(job_file(attempt), job.to_json().encode())
    return job_file(attempt)
