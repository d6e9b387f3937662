"""Finds the history that a command means: one that is named has to be there, and one that is added to writable."""

from __future__ import annotations

from dataclasses import replace

from runtime.contract.errors import BadInput, refusal
from tasks.cloud.storage import probe_writable
from tasks.history.dataset.decisions import DECISIONS
from tasks.history.dataset.notes import NOTES_FOLDER
from tasks.history.dataset.schema import ROWS
from tasks.history.dataset.store import Dataset
from tasks.stages.history import open_history

_PARTS = (ROWS.folder, NOTES_FOLDER, DECISIONS.folder)


def existing_history(named: str | None) -> Dataset:
    """Returns it. Raises BadInput where one is named and nothing of a history lies there: that is a slip.

    Where nobody named it, it may well be that nothing was taken in yet.
    """
    dataset = open_history(named)
    if named is not None and not is_begun(dataset):
        fix = "name its folder, or take runs in: slicebench history import RUNS"
        raise BadInput(f"there is no history in {dataset.folder.uri}", fix=fix)
    return dataset


def is_begun(dataset: Dataset) -> bool:
    """Says whether anything of a history is there."""
    return any(next(iter(dataset.folder.names(part)), None) is not None for part in _PARTS)


def writable_history(named: str | None, *, new: bool = False) -> Dataset:
    """Returns it, where something can be written there; `new`: it need not be there yet.

    Raises BadInput, or InfrastructureError where a disk is full or a storage does not answer.
    """
    dataset = open_history(named) if new else existing_history(named)
    if (problem := probe_writable(dataset.folder)) is not None:
        fix = "name another folder with --history, or give yourself the right to write there"
        told = f"the history in {dataset.folder.uri} is not writable"
        raise refusal([replace(problem, what=told, fix=fix)])
    return dataset
