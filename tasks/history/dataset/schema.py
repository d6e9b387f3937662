"""What a file of the history holds, and how files of other versions are read: older ones and newer ones.

A row is what one run measured of one series, or that it did not. A newer slicebench adds columns, which this one
does not see; where it gives a column another meaning, it says that older ones cannot read its files.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tasks.history.samples import Damaged, NewerSchema
from tasks.history.torn import is_cut_short

if TYPE_CHECKING:
    import pyarrow as pa

VERSION = 1
READABLE_FROM = 1
"""The oldest version that reads what this one writes without being misled."""

_VERSION_KEY = b"slicebench.history.version"
_READABLE_KEY = b"slicebench.history.readable_from"
_REPLACES_KEY = b"slicebench.history.replaces"

COLUMNS: Mapping[str, str] = {
    "night": "string",
    "run_id": "string",
    "began_at": "float64",
    "collected_at": "float64",
    "series": "string",
    "suite": "string",
    "target": "string",
    "benchmark": "string",
    "benchmark_key": "string",
    "label": "string",
    "generator": "string",
    "implementation": "string",
    "operation": "string",
    "metric": "string",
    "unit": "string",
    "machine": "string",
    "fingerprint": "string",
    "track": "string",
    "versions": "string",
    "definition": "string",
    "status": "string",
    "cause": "string",
    "values": "floats",
    "origin": "string",
}
"""Columns in order, with their types; docs/history.md says what each means."""

_EMPTY: Mapping[str, Any] = {"string": "", "float64": 0.0, "floats": []}
"""What an older file counts as having in a column that it lacks."""

_HOLDS = {"string": "texts", "float64": "numbers", "floats": "lists of numbers"}

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Layout:
    """What files of one kind hold, and in which folder they lie. One without what it `must_have` is none of ours.

    `mend`: what to do about one that is damaged.
    """

    folder: str
    columns: Mapping[str, str]
    must_have: Sequence[str]
    mend: str


ROWS = Layout(
    "rows",
    COLUMNS,
    ("run_id", "began_at", "series", "values"),
    "delete it, and take its runs in again by slicebench history import",
)


@dataclass(frozen=True)
class File:
    """The content of a file. `replaces` names files whose rows it holds, relative to the history.

    `newer`: it was written by a newer slicebench, and has columns that are not in `table`.
    """

    table: pa.Table
    replaces: frozenset[str]
    newer: bool


def schema(layout: Layout) -> pa.Schema:
    """Returns the Arrow schema of a file that this version writes, without metadata."""
    import pyarrow as pa

    kinds = {
        "string": pa.string(),
        "float64": pa.float64(),
        "floats": pa.list_(pa.field("element", pa.float64())),
    }
    return pa.schema([pa.field(name, kinds[kind]) for name, kind in layout.columns.items()])


def table_of(rows: Sequence[Row], layout: Layout = ROWS) -> pa.Table:
    """Returns rows as a table; a column that a row lacks is empty there."""
    import pyarrow as pa

    columns = {name: [row.get(name, _EMPTY[kind]) for row in rows] for name, kind in layout.columns.items()}
    return pa.Table.from_pydict(columns, schema=schema(layout))


def empty(layout: Layout) -> pa.Table:
    """Returns what a file without rows holds, as `read_file` gives it."""
    import pyarrow as pa

    text = pa.dictionary(pa.int32(), pa.string())
    coded = [pa.field(one.name, text if one.type == pa.string() else one.type) for one in schema(layout)]
    return pa.Table.from_batches([], schema=pa.schema(coded))  # `empty_table` imports pandas


def to_file(table: pa.Table, replaces: Sequence[str] = ()) -> bytes:
    """Returns the content of a file: the same bytes for the same rows."""
    import pyarrow.parquet as pq

    metadata = {
        _VERSION_KEY: str(VERSION).encode(),
        _READABLE_KEY: str(READABLE_FROM).encode(),
        _REPLACES_KEY: json.dumps(sorted(replaces)).encode(),
    }
    sink = io.BytesIO()
    pq.write_table(table.replace_schema_metadata(metadata), sink, compression="zstd")
    return sink.getvalue()


def read_file(content: bytes, layout: Layout = ROWS) -> File:
    """Reads a file of any version. Raises Damaged, or NewerSchema for one that says that it would mislead us."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if is_cut_short(content):
        raise Damaged("it is cut short")
    try:
        written = pq.read_schema(io.BytesIO(content))
        metadata, there = written.metadata or {}, set(written.names)
        version = _number(metadata, _VERSION_KEY)
        if (needed := _number(metadata, _READABLE_KEY)) > VERSION:
            raise NewerSchema(
                f"only slicebench with history {needed} or newer reads it, this one has {VERSION}"
            )
        if lacking := [name for name in layout.must_have if name not in there]:
            raise Damaged(f"lacks the column {', '.join(lacking)}")
        texts = [name for name in layout.columns if name in there and written.field(name).type == pa.string()]
        file = pq.ParquetFile(io.BytesIO(content), read_dictionary=texts)
        table = file.read(columns=[name for name in layout.columns if name in there], use_threads=False)
        return File(_completed(table, layout), frozenset(_names(metadata)), version > VERSION)
    except (pa.ArrowException, OSError, EOFError, ValueError, TypeError) as error:
        raise Damaged(str(error).splitlines()[0] if str(error) else type(error).__name__) from error


def _completed(table: pa.Table, layout: Layout) -> pa.Table:
    """Returns all columns in their order and types, texts as codes of a dictionary, and nothing that is null."""
    import pyarrow as pa

    text = pa.dictionary(pa.int32(), pa.string())
    kinds = {"string": text, "float64": pa.float64(), "floats": pa.list_(pa.field("element", pa.float64()))}
    columns = []
    for name, kind in layout.columns.items():
        if name not in table.column_names:
            column = pa.chunked_array([pa.array([_EMPTY[kind]] * len(table), type=kinds[kind])])
        else:
            column = table.column(name)
            if column.type != kinds[kind]:
                try:
                    column = column.cast(kinds[kind])
                except pa.ArrowException as error:
                    held = "text" if column.type in (text, pa.string()) else column.type
                    raise Damaged(f"its column {name} holds {held} where {_HOLDS[kind]} belong") from error
        if column.null_count:
            plain = column.cast(pa.string()) if kind == "string" else column
            filled = plain.fill_null(pa.scalar(_EMPTY[kind], type=plain.type))
            column = filled.cast(kinds[kind]) if kind == "string" else filled
        columns.append(column)
    return pa.table(columns, names=list(layout.columns))


def _number(metadata: Mapping[bytes, bytes], key: bytes) -> int:
    text = metadata.get(key, b"1").decode(errors="replace")
    if not text.isdecimal():
        raise Damaged(f"{key.decode()} is {text!r}, no number")
    return int(text)


def _names(metadata: Mapping[bytes, bytes]) -> Sequence[str]:
    names = json.loads(metadata.get(_REPLACES_KEY, b"[]"))
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise Damaged("what it replaces is no list of names")
    return names
