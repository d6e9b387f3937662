"""Makes few large files of many small ones, and lets go of what is older than anybody asks for.

The order makes it safe, wherever it is cut off: what replaces files is there whole before they go, and names them, so
that readers see each row once at any moment. Whoever comes later finds what is left to be deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from runtime.contract.errors import InfrastructureError
from tasks.history.dataset.latest import last_written, latest, numbers, taken
from tasks.history.dataset.moments import month_of
from tasks.history.dataset.schema import ROWS, File, to_file
from tasks.history.dataset.store import Dataset, Stored

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Compacted:
    """What became of the files: how many there were and are, and what could not be read and was left alone.

    `cleared`: files that writers left half-written when they were killed, and that are gone now. `runs`: those that
    were let go of.
    """

    before: int
    after: int
    troubles: tuple[str, ...] = ()
    cleared: int = 0
    runs: int = 0


def compact(dataset: Dataset) -> Compacted:
    """Makes one file of each month's. Files of a newer slicebench stay: they hold columns that we do not see."""
    stored = dataset.read()
    for month, files in sorted(_by_month(stored).items()):
        if len(files) > 1:
            rows = _distinct(dataset, Stored(files, stored.layout).rows())
            _replace(dataset, month, rows, [*files, *stored.replaced])
    return _swept(dataset, stored)


def retain(dataset: Dataset, since: float) -> Compacted:
    """Lets go of all rows of runs that began before `since`, seconds since the epoch."""
    stored = dataset.read()
    runs: set[tuple[str, float]] = set()
    newer = []
    for name, file in sorted(stored.files.items()):
        old = numbers(file.table, "began_at") < since
        kept = np.flatnonzero(~old)
        if len(kept) == len(file.table):
            continue
        if file.newer:
            newer.append(
                f"{dataset.folder.uri}/{name} was left as it is: a newer slicebench wrote it, upgrade this one"
            )
            continue
        runs |= _runs(taken(file.table, np.flatnonzero(old)))
        if len(kept):
            _replace(dataset, _month(name), taken(file.table, kept), [name, *stored.replaced])
        else:
            _delete(dataset, [*(one for one in stored.replaced if one in file.replaces), name])
    done = _swept(dataset, stored)
    return replace(done, runs=len(runs), troubles=(*done.troubles, *newer))


def _runs(rows: pa.Table) -> set[tuple[str, float]]:
    """Returns the runs that rows are of: two may have one id."""
    ids, began = rows.column("run_id").to_pylist(), rows.column("began_at").to_pylist()
    return set(zip(ids, began, strict=True))


def forget_months(dataset: Dataset, since: float) -> None:
    """Lets go of all files of months before that of `since`: of what has no time but a month."""
    stored = dataset.read()
    old = [name for name in stored.files if _month(name) < month_of(since) and _month(name) != "unknown"]
    _delete(dataset, [*(name for name in stored.replaced if _month(name) < month_of(since)), *old])


def _distinct(dataset: Dataset, rows: pa.Table) -> pa.Table:
    return latest(rows) if dataset.layout is ROWS else last_written(rows, ("series", "night"))


def _replace(dataset: Dataset, month: str, rows: pa.Table, names: list[str]) -> None:
    of_month = [name for name in names if _month(name) == month]
    content = to_file(rows.cast(_plain(rows)), of_month)
    name = dataset.put(month, "compacted", content)
    if dataset.folder.read(name) != content:
        raise InfrastructureError(f"{dataset.folder.uri}/{name}: what was written does not read back")


def _plain(rows: pa.Table) -> pa.Schema:
    """Returns the schema with texts as texts: what reads our files need know nothing of codes."""
    import pyarrow as pa

    texts = (pa.types.is_dictionary(field.type) for field in rows.schema)
    return pa.schema(
        [
            pa.field(field.name, pa.string() if text else field.type)
            for field, text in zip(rows.schema, texts, strict=True)
        ]
    )


def _swept(dataset: Dataset, before: Stored) -> Compacted:
    """Deletes what is replaced; returns what there was and is."""
    now = Dataset(dataset.folder, dataset.layout).read()
    _delete(dataset, now.replaced)
    count = len(before.files) + len(before.replaced)
    return Compacted(count, len(now.files), tuple(now.troubles))


def _delete(dataset: Dataset, names: Iterable[str]) -> None:
    for name in names:
        dataset.folder.delete(name)


def _by_month(stored: Stored) -> Mapping[str, dict[str, File]]:
    months: dict[str, dict[str, File]] = {}
    for name, file in stored.files.items():
        if not file.newer:
            months.setdefault(_month(name), {})[name] = file
    return months


def _month(name: str) -> str:
    """Returns the month of a file's folder: rows/month=2026-11/…"""
    return name.partition("month=")[2].partition("/")[0]
