"""A run that was asked for and has not begun, for Prefect comes up first or is busy: it is listed meanwhile, and its
time counts."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.contract.errors import InfrastructureError
from runtime.contract.record import record_of
from tasks.cloud.storage import Folder, is_there, read_json
from tasks.leases import owner as owners
from tasks.leases.lease import Owner
from tasks.stages.files import REQUEST_FILE

if TYPE_CHECKING:
    from tasks.config.spec import RunSpec

ASKED_FILE = "asked.json"
"""Who asked and when. It goes when the run begins, and with who asked: a run that never began is none."""


@dataclass(frozen=True)
class Asked:
    """What was asked for; `at` is in seconds since the epoch."""

    at: float
    suite_name: str
    target: str


@contextmanager
def asked_for(folder: Folder, spec: RunSpec) -> Iterator[None]:
    """Around starting a run: writes down that this process waits for it; leaves nothing of a run that never began.

    Raises InfrastructureError where that cannot be written.
    """
    asked = Asked(time.time(), spec.suite_name, spec.target_name)
    folder.write(ASKED_FILE, json.dumps({**asdict(asked), "owner": asdict(owners.this_process())}).encode())
    try:
        yield
    finally:
        with contextlib.suppress(InfrastructureError):  # once this process is gone it says nothing any more
            folder.delete(ASKED_FILE)
        if "://" not in folder.uri:
            with contextlib.suppress(OSError):  # it holds something: the run began
                Path(folder.uri).rmdir()


def read_asked(folder: Folder) -> Asked | None:
    """Returns what was asked for and has not begun; None where there is nothing, or who asked is known to be gone."""
    try:
        found = read_json(folder, ASKED_FILE)
        asked, owner = record_of(Asked, found), record_of(Owner, found["owner"])
    except (TypeError, KeyError):
        return None
    return None if owners.is_alive(owner) is False else asked


def never_began(folder: Folder) -> str:
    """Says of a run that is none that somebody asked for it, where its command was killed before it began; or ""."""
    if not is_there(folder, ASKED_FILE) or is_there(folder, REQUEST_FILE):
        return ""
    return " that has begun: its command ended before that, and nothing was made"


def begin_asked(folder: Folder) -> float:
    """Says that a run begins; returns when its pass began for who asked: now, where nobody waits for it."""
    asked = read_asked(folder)
    if asked is None:
        return time.time()
    folder.delete(ASKED_FILE)
    return asked.at
