"""Which rows count where a run was recorded more than once: those that were collected last, each once. Pure.

A run is known by its id and by when it was asked for. Two runs that somebody gave one id began at different times:
they are two, and both count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa


def latest(table: pa.Table) -> pa.Table:
    """Returns the rows that count, by series, then in the order in which their runs began."""
    return taken(table, order_of(table))


def order_of(table: pa.Table) -> NDArray[np.int64]:
    """Returns which rows those are, in that order."""
    if len(table) == 0:
        return np.empty(0, dtype=np.int64)
    series, run, point = (codes(table, name) for name in ("series", "run_id", "benchmark_key"))
    began, collected = (np.nan_to_num(numbers(table, name)) for name in ("began_at", "collected_at"))
    order = np.lexsort((series, point, -collected, began, run))
    new_run = _changes(run[order], began[order])
    first = np.flatnonzero(new_run)[np.cumsum(new_run) - 1]  # of each row: the first of its run
    is_last = collected[order] == collected[order][first]
    kept = order[is_last & (new_run | _changes(series[order], point[order]))]
    ordered: NDArray[np.int64] = kept[np.lexsort((began[kept], series[kept]))]
    return ordered


def last_written(table: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Returns of the rows that are alike in their `keys`, texts, the one that was written last."""
    if len(table) == 0:
        return table
    columns = [codes(table, name) for name in keys]
    order_by: list[NDArray[Any]] = [np.nan_to_num(numbers(table, "written_at")), *columns]
    order = np.lexsort(order_by)
    new = _changes(*(column[order] for column in columns))
    return taken(table, order[np.append(new[1:], True)])


def codes(table: pa.Table, name: str) -> NDArray[np.int32]:
    """Returns a column of texts as numbers, equal where the texts are."""
    return np.from_dlpack(table.column(name).combine_chunks().indices).astype(np.int32, copy=False)


def numbers(table: pa.Table, name: str) -> NDArray[np.float64]:
    """Returns a column of numbers."""
    return np.from_dlpack(table.column(name).combine_chunks()).astype(np.float64, copy=False)


def taken(table: pa.Table, rows: NDArray[np.int64]) -> pa.Table:
    """Returns some rows, in their order. By way of a buffer: arrays that are made otherwise import pandas."""
    import pyarrow as pa

    chosen = np.ascontiguousarray(rows, dtype=np.int64)
    return table.take(pa.Array.from_buffers(pa.int64(), len(chosen), [None, pa.py_buffer(chosen)]))


def _changes(*columns: NDArray[np.int32] | NDArray[np.float64]) -> NDArray[np.bool_]:
    """Says of each row whether it differs from the one before in any of the columns; the first does."""
    changed = np.ones(len(columns[0]), dtype=np.bool_)
    changed[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return changed


def bounds(series: NDArray[np.int32]) -> list[tuple[int, int]]:
    """Returns where each series begins and ends in a table that is ordered by them."""
    if not len(series):
        return []
    edges = np.flatnonzero(np.diff(series)) + 1
    starts = [0, *edges.tolist()]
    return list(zip(starts, [*starts[1:], len(series)], strict=True))
