"""Which files of a collected run are gone or cut short, as after a full disk, and the command that makes them again.

Quick: of the samples only the last bytes are read, so that listing runs can afford it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from runtime.contract.names import STAGES_FOLDER
from tasks.cloud.storage import Folder, is_there
from tasks.config.commands import resume
from tasks.history.results import POINTS_FILE, SAMPLES_FILE
from tasks.history.verdict import VERDICTS_FILE

_MAGIC = b"PAR1"
"""How a Parquet file begins and, being written from front to back, ends only when it is whole."""
_TAIL = 2 * len(_MAGIC) + 1
"""Bytes at the end of a Parquet file that tell whether it is whole."""


def collect_again(folder: Folder) -> str:
    """Returns the command that gathers a run's results again from what its workers delivered."""
    return resume(folder.uri, "--from", "collect")


def is_cut_short(parquet: bytes) -> bool:
    """Says whether a Parquet file, or what is there of its last `_TAIL` bytes, ends before its end."""
    return len(parquet) < _TAIL or not parquet.endswith(_MAGIC)


@dataclass(frozen=True)
class Torn:
    """A file that is gone or cut short, and the command that makes it again."""

    place: str
    what: str
    fix: str

    def __str__(self) -> str:
        return f"{self.place} {self.what}: {self.fix}"


def torn(folder: Folder) -> list[Torn]:
    """Returns what of a collected run is gone or cut short; other damage is for who reads the files to find."""
    if not is_there(folder, f"{STAGES_FOLDER}/collect.json"):
        return []
    told = []
    for name in (POINTS_FILE, SAMPLES_FILE, VERDICTS_FILE):
        if what := _what_is_wrong(folder, name):
            told.append(Torn(f"{folder.uri}/{name}", what, collect_again(folder)))
    return told


def _what_is_wrong(folder: Folder, name: str) -> str:
    samples = name == SAMPLES_FILE
    content = folder.read(name, -_TAIL if samples else 0)
    if content is None:
        return "" if name == VERDICTS_FILE else "is missing"  # it may not have been compared yet
    cut = is_cut_short(content) if samples else not _is_json(content)
    return "is cut short" if cut else ""


def _is_json(content: bytes) -> bool:
    try:
        json.loads(content)
    except ValueError:
        return False
    return True
