"""The history of all runs: takes in what runs left behind, and reads the series that there are."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from runtime.contract.errors import BadInput, InfrastructureError
from tasks.cloud.storage import Folder, is_there, open_folder, read_json
from tasks.config.home import history_uri
from tasks.history.dataset.notes import read_notes
from tasks.history.dataset.recorded import Recorded, Records
from tasks.history.dataset.rows import Belonging, row_of_nothing, rows_of, track_of
from tasks.history.dataset.schema import Row
from tasks.history.dataset.store import Dataset
from tasks.history.reading import load_results
from tasks.history.results import Results
from tasks.stages.files import OUTCOME_FILE, REQUEST_FILE

_AT_ONCE = 8


@dataclass(frozen=True)
class Looked:
    """The series of a history, and what of it could not be read."""

    where: str
    records: Records
    troubles: Sequence[str]

    def find(self, word: str) -> Recorded:
        """Returns the series that a word means: its id, a beginning of it, or words of its name, all in one.

        Raises BadInput, naming those that it could be, unless there is exactly one.
        """
        found = [one for one in self.records.series.values() if matches(one, word)]
        if len(exact := [one for one in found if is_called(one, word)]) == 1:
            found = exact
        if len(found) == 1:
            return found[0]
        if not self.records.series:
            raise BadInput(f"the history in {self.where} is empty", fix="slicebench history import RUNS")
        if not found:
            raise BadInput(f"there is no series {word!r}", fix="see slicebench history list")
        some = ", ".join(f"{one.id} ({one.name})" for one in found[:5])
        raise BadInput(
            f"{word!r} could be any of {len(found)}: {some}", fix="write more of its name, or its id"
        )


def matches(recorded: Recorded, word: str) -> bool:
    """Says whether a series is meant by a word: by its id, or by parts of its name and machine."""
    if recorded.id.startswith(word) and len(word) >= 4:
        return True
    told = " ".join((recorded.name, recorded.about["track"], *recorded.fingerprint.values())).lower()
    return all(part in told for part in _words(word))


def is_called(recorded: Recorded, word: str) -> bool:
    """Says whether all words are whole ones of its name: `save` is in `save`, and only a part of `saved_byte`."""
    return set(_words(word)) <= set(_words(recorded.name))


def _words(text: str) -> list[str]:
    return text.lower().replace("/", " ").split()


def open_history(uri: str | None) -> Dataset:
    """Returns the history that lies there; None: where it lies if nobody says anything else."""
    return Dataset(open_folder(uri or history_uri()))


def look(dataset: Dataset) -> Looked:
    """Reads all of it. Raises InfrastructureError when the storage fails."""
    stored, notes = dataset.read(), read_notes(dataset.folder)
    records = Records(stored.table(), notes, time.time())
    return Looked(dataset.folder.uri, records, [*stored.troubles, *notes.troubles])


@dataclass(frozen=True)
class TakenIn:
    """What became of a run: how many series it added to, or why it added nothing."""

    what: str
    series: int = 0
    why_not: str = ""


def take_in(dataset: Dataset, uri: str) -> list[TakenIn]:
    """Takes in a run by its folder, or all runs of an output. What was taken in before changes nothing.

    Raises BadInput where there is neither.
    """
    folder = open_folder(uri)
    if is_there(folder, REQUEST_FILE):
        runs = [folder]
    else:
        runs = [one for name in folder.folders() if is_there(one := folder.child(name), REQUEST_FILE)]
    if not runs:
        raise BadInput(
            f"there is no run in {folder.uri}", fix="name the folder of a run, or an --output of runs"
        )
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(lambda run: take_in_run(dataset, run), runs))


def take_in_run(dataset: Dataset, folder: Folder) -> TakenIn:
    """Takes in one run; what cannot be read of it is told."""
    run_id = folder.uri.rpartition("/")[2]
    try:
        rows = rows_of_folder(folder)
        if rows:
            dataset.append(rows)
            return TakenIn(run_id, sum(bool(row.get("series")) for row in rows))
        return TakenIn(run_id, why_not="it has not ended")
    except InfrastructureError as error:
        return TakenIn(run_id, why_not=str(error))


def rows_of_folder(folder: Folder) -> list[Row]:
    """Returns what a run adds; nothing while it may still go on. Raises InfrastructureError for damaged results."""
    document = _mapping(read_json(folder, REQUEST_FILE))
    request = _mapping(document.get("request"))
    belonging = Belonging(track_of(request), str(request.get("night") or ""), folder.uri)
    results = load_results(folder)
    if results is not None and results.points:
        return rows_of(results, belonging)
    return list(_of_nothing(folder, document, results, belonging))


def _of_nothing(
    folder: Folder, document: Mapping[str, Any], results: Results | None, belonging: Belonging
) -> Iterator[Row]:
    """Yields the row of a run that ended without results."""
    outcome, began = _mapping(read_json(folder, OUTCOME_FILE)), document.get("created_at")
    if not outcome or not isinstance(began, int | float):
        return
    causes = outcome.get("causes") or ["it ended without results"]
    suite, target = (str(document.get(name) or "") for name in ("suite_name", "target"))
    yield row_of_nothing(
        folder.uri.rpartition("/")[2], suite, target, float(began), str(causes[0]), belonging
    )


def _mapping(found: object) -> Mapping[str, Any]:
    return found if isinstance(found, Mapping) else {}
