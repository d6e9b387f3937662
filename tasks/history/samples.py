"""Samples as Arrow tables: reading a worker's part, joining parts into one file, and cutting it into measurements."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from runtime.contract.metrics import TIME
from runtime.contract.results import SAMPLE_COLUMNS, SCHEMA_VERSION, SCHEMA_VERSION_KEY
from tasks.history.measurement import Measurement
from tasks.history.torn import is_cut_short

if TYPE_CHECKING:
    import pyarrow as pa


_IDENTITY = ("attempt", "point", "repeat", "occurrence", "worker", "operation", "metric")


class Damaged(Exception):
    """A part that cannot be read whole; the text says why."""


class NewerSchema(Exception):
    """A part written by a newer slicebench; the text says which version."""


def schema() -> pa.Schema:
    """Returns the Arrow schema of a samples file, its version in the metadata."""
    import pyarrow as pa

    kinds = {"string": pa.string(), "bool": pa.bool_(), "int32": pa.int32(), "float64": pa.float64()}
    fields = [pa.field(name, kinds[kind]) for name, kind in SAMPLE_COLUMNS.items()]
    return pa.schema(fields, metadata={SCHEMA_VERSION_KEY: str(SCHEMA_VERSION).encode()})


def read_part(content: bytes) -> pa.Table:
    """Reads one samples file. Raises Damaged for one cut short or of another form, NewerSchema for one too new."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if is_cut_short(content):
        raise Damaged("it is cut short")
    try:
        file = pq.ParquetFile(io.BytesIO(content))
        version = _version(file.schema_arrow.metadata or {})
        if version > SCHEMA_VERSION:
            raise NewerSchema(f"schema {version}, this slicebench knows {SCHEMA_VERSION}: upgrade it")
        table = file.read()
    except (pa.ArrowException, OSError, EOFError) as error:
        raise Damaged(str(error).splitlines()[0] if str(error) else type(error).__name__) from error
    lacking = [name for name in SAMPLE_COLUMNS if name not in table.column_names]
    if lacking:
        raise Damaged(f"lacks the column {', '.join(lacking)}")
    try:
        return table.select(list(SAMPLE_COLUMNS)).cast(schema())
    except pa.ArrowException as error:
        raise Damaged(str(error).splitlines()[0]) from error


def _version(metadata: Mapping[bytes, bytes]) -> int:
    text = metadata.get(SCHEMA_VERSION_KEY, b"1").decode(errors="replace")
    if not text.isdecimal():
        raise Damaged(f"schema version {text!r} is no number")
    return int(text)


def join_parts(parts: Sequence[pa.Table]) -> tuple[pa.Table, int]:
    """Returns one table in a fixed order, each sample once, and how many samples came more than once."""
    import pyarrow as pa

    table = pa.concat_tables(parts) if parts else schema().empty_table()
    if len(table) == 0:
        return table, 0
    codes = np.stack([_ranks(table.column(name)) for name in _IDENTITY])
    order = np.lexsort(codes[::-1])
    ordered = codes[:, order]
    # Of equals the last in the file stays: lexsort is stable, so it is the last of its group.
    last = np.append((ordered[:, 1:] != ordered[:, :-1]).any(axis=0), True)
    kept = np.ascontiguousarray(order[last], dtype=np.int64)
    rows = pa.Array.from_buffers(pa.int64(), len(kept), [None, pa.py_buffer(kept)])
    return table.take(rows), int((~last).sum())


def _ranks(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """Returns numbers that sort as the column's values do, shape (rows,).

    Arrays change hands without pa.array and numpy.asarray, which import pandas: half a second that each run waits for.
    """
    encoded = column.dictionary_encode().combine_chunks()
    distinct = encoded.dictionary.to_pylist()
    ranks = np.empty(len(distinct), dtype=np.int64)
    ranks[sorted(range(len(distinct)), key=distinct.__getitem__)] = np.arange(len(distinct))
    rows: NDArray[np.int64] = ranks[np.from_dlpack(encoded.indices)]
    return rows


def to_parquet(table: pa.Table) -> bytes:
    """Returns the table as the content of a Parquet file."""
    import pyarrow.parquet as pq

    sink = io.BytesIO()
    pq.write_table(table.replace_schema_metadata(schema().metadata), sink, compression="zstd")
    return sink.getvalue()


def measurements(table: pa.Table, attempts: Mapping[int, int]) -> list[Measurement]:
    """Cuts samples into measurements, taking for each point those of its attempt in `attempts` (point → attempt)."""
    groups: dict[tuple[int, str, str], list[int]] = {}
    columns = {name: table.column(name).to_pylist() for name in SAMPLE_COLUMNS if name != "run_id"}
    for row, (point, attempt) in enumerate(zip(columns["point"], columns["attempt"], strict=True)):
        if attempts.get(point) == attempt:
            key = (point, columns["operation"][row], columns["metric"][row])
            groups.setdefault(key, []).append(row)
    began = {key: min(columns["started_at"][row] for row in rows) for key, rows in groups.items()}
    ordered = sorted(groups, key=lambda key: (key[0], began[key], key[1], key[2] != TIME, key[2]))
    return [_measurement(columns, groups[key]) for key in ordered]


def _measurement(columns: Mapping[str, list[Any]], rows: Sequence[int]) -> Measurement:
    observations = sorted({(columns["repeat"][row], columns["occurrence"][row]) for row in rows})
    workers = sorted({columns["worker"][row] for row in rows})
    place = {observation: index for index, observation in enumerate(observations)}
    column = {worker: index for index, worker in enumerate(workers)}
    values = np.full((len(observations), len(workers)), np.nan)
    warmup = np.zeros(len(observations), dtype=np.bool_)
    for row in rows:
        index = place[columns["repeat"][row], columns["occurrence"][row]]
        values[index, column[columns["worker"][row]]] = columns["value"][row]
        warmup[index] |= columns["warmup"][row]
    first = rows[0]
    return Measurement(
        point=columns["point"][first],
        benchmark=columns["benchmark"][first],
        benchmark_key=columns["benchmark_key"][first],
        operation=columns["operation"][first],
        metric=columns["metric"][first],
        unit=columns["unit"][first],
        repeats=np.asarray([repeat for repeat, _ in observations], dtype=np.int64),
        warmup=warmup,
        workers=np.asarray(workers, dtype=np.int64),
        values=values,
    )
