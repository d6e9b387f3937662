"""Which earlier runs, or series of them, are no baseline because somebody excluded them in the history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from runtime.contract.errors import InfrastructureError
from tasks.cloud.storage import Folder, read_json
from tasks.history.comparison import PastRun
from tasks.history.dataset.moments import moment_name
from tasks.history.dataset.notes import Notes, read_notes
from tasks.history.dataset.rows import Belonging, series_id
from tasks.history.results import Results
from tasks.stages.files import REQUEST_FILE


@dataclass(frozen=True)
class Excluded:
    """What the notes of a history say of runs that lie in an output."""

    notes: Notes
    output: Folder

    def whole(self, runs: Sequence[Results]) -> tuple[list[Results], list[str]]:
        """Returns the runs that count, and of the others why not."""
        kept, told = [], []
        for run in runs:
            note = self.notes.excluded("", self._names(run)) if self.notes.notes else None
            if note is None:
                kept.append(run)
            else:
                told.append(f"{run.run_id}: {note.words}")
        return kept, told

    def series(self, run: Results, past: PastRun) -> PastRun:
        """Returns what a run adds to the baseline without the series of it that do not count."""
        if not any(note.series for note in self.notes.notes):
            return past
        track, names = belonging_of(self.output.child(run.run_id)).track, self._names(run)
        counting = {
            key: values
            for key, values in past.series.items()
            if not self.notes.excluded(series_id(*key, run.fingerprint, track), names)
        }
        return replace(past, series=counting)

    def _names(self, run: Results) -> tuple[str, str]:
        night = belonging_of(self.output.child(run.run_id)).night
        return run.run_id, night or moment_name(run.began_at or 0.0)


def excluded_in(history: Folder, output: Folder) -> tuple[Excluded, list[str]]:
    """Returns what a history excludes of an output's runs, and what of its notes cannot be read."""
    try:
        notes = read_notes(history)
    except InfrastructureError as error:
        return Excluded(Notes(), output), [str(error)]
    return Excluded(notes, output), list(notes.troubles)


def belonging_of(folder: Folder) -> Belonging:
    """Returns what a run belongs to in the history, as its folder says."""
    from tasks.config.source import track_of  # slow: a pydantic model behind it

    document = read_json(folder, REQUEST_FILE)
    request = document.get("request") if isinstance(document, dict) else None
    asked = request if isinstance(request, dict) else {}
    return Belonging(
        str(asked.get("track") or track_of(asked)),
        str(asked.get("night") or ""),
        folder.uri,
        partial=isinstance(document, dict) and document.get("partial") is True,
    )
