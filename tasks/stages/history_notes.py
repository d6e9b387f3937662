"""What people say of nights and levels, checked against what the history holds and written into it."""

from __future__ import annotations

import difflib
import getpass
import time

from runtime.contract.errors import BadInput
from tasks.history.dataset.notes import Kind, Note, write_note
from tasks.history.dataset.of_machine import PREFIX, name_of_machine
from tasks.history.dataset.store import Dataset
from tasks.stages.history import judged, look, machine_called, of_machine


def note_night(dataset: Dataset, kind: Kind, night: str, series: str | None, text: str) -> Note:
    """Says something of a night, by its name or a run's id. Raises BadInput where there is no such night or series."""
    looked = look(dataset)
    known = looked.records.night_names
    if night not in known:
        near = difflib.get_close_matches(night, sorted(known), n=3)
        fix = (
            f"did you mean {' or '.join(near)}?"
            if near
            else "see slicebench history list, and a series' nights"
        )
        raise BadInput(f"there is no night and no run {night!r} in {looked.where}", fix=fix)
    one = looked.find(series).id if series else ""
    if kind == "include" and not looked.notes.leave_out(one, looked.records.called(night)):
        raise BadInput(
            f"{night} is not excluded{f' of {one}' if one else ''}",
            fix="see what does not count, and why: slicebench history SERIES",
        )
    note = _noted(kind, night, one, text)
    write_note(dataset.folder, note)
    return note


def accept_level(dataset: Dataset, series: str, since: str | None, text: str) -> Note:
    """Says that a series, or a machine, is expected to be as it is since a night; of None: since its open alert began.

    Raises BadInput where there is no such night, or no alert.
    """
    looked = look(dataset)
    if series.startswith(PREFIX):
        group = machine_called(looked, series)
        found, nights = name_of_machine(group.name), set(group.nights)
        decisions = of_machine(dataset, looked, group)
    else:
        one = looked.find(series)
        found, nights = one.id, {night.name for night in one.nights}
        decisions = judged(dataset, looked, one) if since is None else []
    if since is None:
        alert = decisions[-1].standing.alert if decisions else None
        if alert is None:
            raise BadInput(
                f"no alert is open for {found}", fix="name the first night of its level: --from NIGHT"
            )
        since = alert.began
    elif since not in nights:
        raise BadInput(f"{found} has no night {since!r}", fix=f"see slicebench history {found}")
    note = _noted("accept", since, found, text)
    write_note(dataset.folder, note)
    return note


def _noted(kind: Kind, night: str, series: str, text: str) -> Note:
    return Note(kind, night, series, text, getpass.getuser(), time.time())
