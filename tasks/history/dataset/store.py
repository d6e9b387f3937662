"""The history as files in a folder, here or in a bucket: many write at once, and any of them may die at any point.

    <history>/rows/month=2026-11/<run>-<hash>.parquet      the rows of one run, written whole by whoever recorded it
                                /compacted-<hash>.parquet  rows of many; in its metadata stands which files it replaces
    <history>/notes/<time>-<hash>.json                     what people said of nights

No file is ever changed, and a file's name comes of its content: two writers never meet, and what is written again
is the same file. A compacted file replaces others in the moment in which it is there, for it names them itself: one
write is all that a reader has to see whole. Deleting what was replaced only saves room.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runtime.contract.errors import InfrastructureError
from tasks.cloud.storage import Folder
from tasks.history.dataset.latest import latest
from tasks.history.dataset.moments import month_of
from tasks.history.dataset.schema import ROWS, File, Layout, Row, empty, read_file, table_of, to_file
from tasks.history.samples import Damaged, NewerSchema

if TYPE_CHECKING:
    import pyarrow as pa

_AT_ONCE = 16
"""Files read at a time: in a bucket each takes a while to begin to come."""
_TRIES = 20
"""Times that the files may change under our hands before we give up: compaction goes on for a moment only."""


@dataclass(frozen=True)
class Stored:
    """What lies in the history: files by name that count, names that others replace, and what cannot be read."""

    files: Mapping[str, File]
    layout: Layout = ROWS
    replaced: Sequence[str] = ()
    troubles: Sequence[str] = ()

    def rows(self) -> pa.Table:
        """Returns all rows, as they were written."""
        import pyarrow as pa

        tables = [file.table for file in self.files.values()] or [empty(self.layout)]
        return pa.concat_tables(tables).unify_dictionaries()

    def table(self) -> pa.Table:
        """Returns the rows of runs, each once: of a run that was recorded again, what was collected last."""
        return latest(self.rows())


@dataclass(frozen=True)
class Dataset:
    """The history that lies in a folder; of what it holds, the rows of one layout."""

    folder: Folder
    layout: Layout = ROWS
    _known: dict[str, File | str] = field(default_factory=dict, compare=False, repr=False)

    def append(self, rows: Sequence[Row]) -> list[str]:
        """Writes the rows of one run; returns the names of the files that hold them. No rows: nothing is written."""
        months: dict[str, list[Row]] = {}
        for row in rows:
            months.setdefault(month_of(row["began_at"]), []).append(row)
        return self.append_months(str(rows[0]["run_id"]) if rows else "", months)

    def append_months(self, stem: str, months: Mapping[str, Sequence[Row]]) -> list[str]:
        """Writes rows by the month that they are of, into files whose names begin with `stem`; returns the names."""
        return [
            self.put(month, _safe(stem), to_file(table_of(rows, self.layout)))
            for month, rows in months.items()
        ]

    def put(self, month: str, stem: str, content: bytes) -> str:
        """Writes a file under a name of its own; returns the name. One that is there already is left as it is."""
        digest = hashlib.sha256(content).hexdigest()[:16]
        name = f"{self.layout.folder}/month={month}/{stem}-{digest}.parquet"
        if not self.folder.create(name, content) and self.folder.read(name) != content:
            # Whoever wrote it died on the way, where files cannot appear whole.
            self.folder.write(name, content)
        return name

    def read(self) -> Stored:
        """Reads all files. What is damaged or too new is told as a trouble and left out, never guessed.

        Raises InfrastructureError when the storage fails.
        """
        for _ in range(_TRIES):
            names = self._names()
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                found = dict(zip(names, pool.map(self._read, names), strict=True))
            if None not in found.values():  # one that is gone was replaced after we had looked
                there = {name: file for name, file in found.items() if file is not None}
                return _stored(there, self.layout)
        raise InfrastructureError(f"{self.folder.uri} changes faster than it can be read: try again")

    def _names(self) -> list[str]:
        """Returns the files that are there at one moment. A single look may miss both a file and what replaces it."""
        before: list[str] | None = None
        for _ in range(_TRIES):
            now = [name for name in self.folder.names(self.layout.folder) if name.endswith(".parquet")]
            if now == before:
                return now
            before = now
        raise InfrastructureError(f"{self.folder.uri} changes faster than it can be listed: try again")

    def _read(self, name: str) -> File | str | None:
        """Returns a file, why it cannot be read, or None when it is not there any more."""
        if name not in self._known:
            content = self.folder.read(name)
            if content is None:
                return None
            try:
                self._known[name] = read_file(content, self.layout)
            except NewerSchema as error:
                return f"{self.folder.uri}/{name} cannot be read: {error}: upgrade it"
            except Damaged as error:
                return f"{self.folder.uri}/{name} cannot be read: {error}: {self.layout.mend}"
        return self._known[name]


def _stored(found: Mapping[str, File | str], layout: Layout) -> Stored:
    files = {name: file for name, file in found.items() if isinstance(file, File)}
    replaced = frozenset[str]().union(*(file.replaces for file in files.values()))
    return Stored(
        files={name: file for name, file in files.items() if name not in replaced},
        layout=layout,
        replaced=sorted(replaced & found.keys()),
        troubles=[why for name, why in found.items() if isinstance(why, str) and name not in replaced],
    )


def _safe(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text)[:64].strip(".-_") or "run"
