"""What people say of nights, each a file of its own that is never changed: what was said last of a night counts.

annotate   a sentence that stands beside a night
exclude    a night, of one series or of all, that says nothing of the code: no verdict and no baseline sees it
include    … that it counts after all
accept     what a series' values are from a night on is what is expected of them
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Literal, get_args

from runtime.contract.record import record_of
from tasks.cloud.storage import Folder

NOTES_FOLDER = "notes"
VERSION = 1

Kind = Literal["annotate", "exclude", "include", "accept"]


@dataclass(frozen=True)
class Note:
    """`night` is a night's name or a run's id; `series` one series, or empty for all. `at`: seconds since the epoch."""

    kind: Kind
    night: str
    series: str
    text: str
    by: str
    at: float

    @property
    def words(self) -> str:
        """Returns by whom a night was excluded, and why."""
        return f"excluded by {self.by}: {self.text}" if self.text else f"excluded by {self.by}"

    def is_of(self, series: str, names: Iterable[str]) -> bool:
        """Says whether it is said of a series' night that goes by any of these names."""
        return self.series in ("", series) and self.night in names


@dataclass(frozen=True)
class Notes:
    """All notes, in the order in which they were made, and what cannot be read."""

    notes: Sequence[Note] = ()
    troubles: Sequence[str] = ()

    def of(self, series: str, names: Iterable[str]) -> list[Note]:
        """Returns what is said of a series' night that goes by these names."""
        known = set(names)
        return [note for note in self.notes if note.is_of(series, known)]

    def excluded(self, series: str, names: Iterable[str]) -> Note | None:
        """Returns the note by which a night does not count; None when it does."""
        said = [note for note in self.of(series, names) if note.kind in ("exclude", "include")]
        return said[-1] if said and said[-1].kind == "exclude" else None

    def leave_out(self, series: str, runs: Iterable[tuple[str, str]]) -> bool:
        """Says whether any of these runs, each by its night and id, does not count for a series; of "": for any."""
        known = set(runs)
        names = {name for run in known for name in run}
        of = {series} if series else {note.series for note in self.notes if note.night in names}
        return any(self.excluded(one, run) for one in of for run in known)

    def accepted(self, series: Iterable[str]) -> dict[str, frozenset[str]]:
        """Returns of each series the nights that begin a new level."""
        said = [note for note in self.notes if note.kind == "accept"]
        return {
            one: frozenset(note.night for note in said if note.series in ("", one)) for one in series if said
        }


def write_note(folder: Folder, note: Note) -> str:
    """Writes a note into the history; returns the name of its file."""
    content = json.dumps({"version": VERSION, **asdict(note)}, indent=1, sort_keys=True).encode()
    name = f"{NOTES_FOLDER}/{note.at:017.6f}-{hashlib.sha256(content).hexdigest()[:12]}.json"
    if not folder.create(name, content) and folder.read(name) != content:
        folder.write(name, content)
    return name


def read_notes(folder: Folder) -> Notes:
    """Reads all notes. Those that are damaged, or of a kind that only a newer slicebench knows, are troubles."""
    notes, troubles = [], []
    for name in folder.names(NOTES_FOLDER):
        if not name.endswith(".json"):
            continue
        try:
            notes.append(_note(folder.read(name) or b""))
        except (ValueError, TypeError) as error:
            troubles.append(f"{folder.uri}/{name} cannot be read: {error}: mend or delete it")
    return Notes(sorted(notes, key=lambda note: note.at), troubles)


def _note(content: bytes) -> Note:
    note = record_of(Note, json.loads(content))
    if note.kind not in get_args(Kind):
        raise ValueError(f"{note.kind!r} is a kind of note that this slicebench does not know: upgrade it")
    return note
