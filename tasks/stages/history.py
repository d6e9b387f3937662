"""The history of all runs: takes in what runs left behind, and reads the series that there are."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from runtime.contract.errors import BadInput, InfrastructureError
from tasks.cloud.storage import Folder, clear_drafts, is_there, open_folder, read_json
from tasks.config.home import history_uri
from tasks.history.dataset.compaction import Compacted, compact, forget_months, retain
from tasks.history.dataset.decision import Decision
from tasks.history.dataset.decisions import DECISIONS, decisions_of, rows_of_decisions
from tasks.history.dataset.fold import fold
from tasks.history.dataset.groups import Group, group_of, groups, narrowed
from tasks.history.dataset.lines import Shown
from tasks.history.dataset.notes import Notes, read_notes
from tasks.history.dataset.of_machine import name_of_machine
from tasks.history.dataset.orbax import is_baseline, rows_of_baseline
from tasks.history.dataset.recorded import Recorded, Records
from tasks.history.dataset.rows import Belonging, row_of_nothing, rows_of
from tasks.history.dataset.schema import Row
from tasks.history.dataset.store import Dataset
from tasks.history.reading import load_results
from tasks.stages.excluded import belonging_of
from tasks.stages.files import OUTCOME_FILE, REQUEST_FILE

MOST_JUDGED = 120
"""Nights, the latest, that are judged on the spot where nobody judged them when they were run."""

MOST_DECISIONS = 5000
"""Decisions that a person who asks for one series waits for: a second makes a thousand."""

_AT_ONCE = 8


@dataclass(frozen=True)
class Looked:
    """The series of a history, and what of it could not be read."""

    where: str
    records: Records
    notes: Notes
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
    if len(word) >= 4 and (recorded.id.startswith(word) or recorded.id.rpartition("-")[2].startswith(word)):
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
    records = Records(stored.rows(), notes, time.time())
    return Looked(dataset.folder.uri, records, notes, [*stored.troubles, *notes.troubles])


def groups_of(looked: Looked, least: Mapping[str, float] | None = None) -> Mapping[str, Group]:
    """Returns the series that are judged, by the groups that they are judged in; `least`: see `groups`."""
    series = looked.records.series
    machines = {name_of_machine(group_of(one)) for one in series.values()}
    return groups(looked.records, looked.notes.accepted([*series, *machines]), least)


def read_decisions(dataset: Dataset) -> tuple[list[Decision], Sequence[str]]:
    """Returns what was decided so far, by night, and what of it cannot be read."""
    stored = Dataset(dataset.folder, DECISIONS).read()
    return decisions_of(stored.rows()), stored.troubles


def write_decisions(dataset: Dataset, decisions: Sequence[Decision]) -> None:
    """Adds decisions to the history. Those of one night that are written again count as they were written last."""
    months = rows_of_decisions(decisions, time.time())
    Dataset(dataset.folder, DECISIONS).append_months("decided", months)


def judged(dataset: Dataset, looked: Looked, series: Recorded) -> list[Decision]:
    """Returns what was and is to be decided of a series, by night; nothing of one that follows from others.

    It is decided together with the series of its machine and track: a night that was off for all is no change of one.
    """
    return judged_of_all(dataset, looked, series).get(series.id, [])


def judged_of_all(
    dataset: Dataset, looked: Looked, series: Recorded | None = None, *, whole: bool = False
) -> Mapping[str, list[Decision]]:
    """Returns the same of every series and machine, or of one and of some that it is decided together with.

    `whole`: of all that it is decided together with, however long that takes.
    """
    decisions, _ = read_decisions(dataset)
    of_group = group_of(series) if series else None
    known = [one for one in decisions if of_group in (None, one.group)]
    metrics = {one.id: one.about["metric"] for one in looked.records.series.values()}
    least = {
        metrics[one.series]: one.least for one in known if one.series in metrics
    }  # as they were judged last
    chosen = {name: group for name, group in groups_of(looked, least).items() if of_group in (None, name)}
    if series and not whole and of_group in chosen and series.id in chosen[of_group].members:
        chosen = {of_group: narrowed(chosen[of_group], series.id, known, MOST_JUDGED, MOST_DECISIONS)}
    found: dict[str, list[Decision]] = {}
    for one in fold(chosen, known, most=MOST_JUDGED):
        found.setdefault(one.series, []).append(one)
    return found


def shown_of(dataset: Dataset, looked: Looked, series: Recorded) -> Shown:
    """Returns all that is known of a series."""
    records = looked.records
    decisions = judged(dataset, looked, series)
    return Shown(series, records.seen(series.id), records.holes(series), decisions, looked.notes)


def machine_called(looked: Looked, word: str) -> Group:
    """Returns the series of the machine that is meant by its id, or a beginning of it. Raises BadInput for none."""
    found = [group for name, group in groups_of(looked).items() if name_of_machine(name).startswith(word)]
    if len(found) == 1:
        return found[0]
    some = ", ".join(f"{name_of_machine(group.name)} ({group.title})" for group in groups_of(looked).values())
    raise BadInput(
        f"{word!r} could be any of {len(found)} machines" if found else f"there is no machine {word!r}",
        fix=f"those that there are: {some}" if some else "slicebench history import RUNS",
    )


def of_machine(dataset: Dataset, looked: Looked, group: Group) -> list[Decision]:
    """Returns what was and is to be decided of a whole machine, of the nights in which there is something to say."""
    member = next(iter(group.members.values())).recorded
    return judged_of_all(dataset, looked, member, whole=True).get(name_of_machine(group.name), [])


def compact_all(dataset: Dataset) -> Compacted:
    """Makes few files of the history's many, and clears away what killed writers left."""
    decisions, rows = compact(Dataset(dataset.folder, DECISIONS)), compact(dataset)
    return Compacted(
        rows.before + decisions.before,
        rows.after + decisions.after,
        (*rows.troubles, *decisions.troubles),
        clear_drafts(dataset.folder),
    )


def retain_days(dataset: Dataset, days: int) -> Compacted:
    """Lets go of runs that began more than so many days ago, and of what was decided of nights of earlier months."""
    since = time.time() - 86400.0 * days
    rows = retain(dataset, since)
    forget_months(Dataset(dataset.folder, DECISIONS), since)
    return replace(rows, cleared=clear_drafts(dataset.folder))


@dataclass(frozen=True)
class TakenIn:
    """What became of a run: how many series it added to, or why it added nothing."""

    what: str
    series: int = 0
    why_not: str = ""


def take_in(dataset: Dataset, uri: str) -> list[TakenIn]:
    """Takes in a run by its folder, all runs of an output, or baselines of Orbax's: a file, or a folder of them.

    What was taken in before changes nothing. Raises BadInput where there is none of it.
    """
    if uri.endswith(".json"):
        above, _, name = uri.rpartition("/")
        return [_take_in_baseline(dataset, open_folder(above or "."), name)]
    folder = open_folder(uri)
    if is_there(folder, REQUEST_FILE):
        runs = [folder]
    else:
        runs = [one for name in folder.folders() if is_there(one := folder.child(name), REQUEST_FILE)]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = list(pool.map(lambda run: take_in_run(dataset, run), runs))
    found = found or [_take_in_baseline(dataset, folder, name) for name in _baselines(folder)]
    if not found:
        fix = "name the folder of a run, an --output of runs, or a baseline_capture_path of Orbax's"
        raise BadInput(f"there is no run in {folder.uri}", fix=fix)
    return found


def _baselines(folder: Folder) -> list[str]:
    """Returns the names of the files in a folder that are baselines of Orbax's."""
    names = [name for name in folder.names() if name.endswith(".json") and "/" not in name]
    return [name for name in names if is_baseline(read_json(folder, name))]


def _take_in_baseline(dataset: Dataset, folder: Folder, name: str) -> TakenIn:
    where = f"{folder.uri}/{name}"
    content = folder.read(name)
    if content is None:
        raise BadInput(f"there is no file {where}", fix="name a file that Orbax's runner wrote")
    rows = rows_of_baseline(content, where)
    dataset.append(rows)
    return TakenIn(where, len(rows))


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
    belonging = belonging_of(folder)
    results = load_results(folder)
    if results is not None and results.points:
        return rows_of(results, belonging)
    return list(_of_nothing(folder, belonging))


def _of_nothing(folder: Folder, belonging: Belonging) -> Iterator[Row]:
    """Yields the row of a run that ended without results."""
    document, outcome = (_mapping(read_json(folder, name)) for name in (REQUEST_FILE, OUTCOME_FILE))
    began = document.get("created_at")
    if not outcome or not isinstance(began, int | float):
        return
    causes = outcome.get("causes") or ["it ended without results"]
    suite, target = (str(document.get(name) or "") for name in ("suite_name", "target"))
    yield row_of_nothing(
        folder.uri.rpartition("/")[2], suite, target, float(began), str(causes[0]), belonging
    )


def _mapping(found: object) -> Mapping[str, Any]:
    return found if isinstance(found, Mapping) else {}
