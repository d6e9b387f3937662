"""Files of the history are read whichever version wrote them, or it is said why not."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.history.dataset.schema import COLUMNS, read_file, table_of, to_file
from tasks.history.samples import Damaged, NewerSchema
from tests.tasks.history.dataset.making import row

ROWS = [row(0), row(1, [float("nan"), 0.0])]


def rewritten(table: pa.Table, **metadata: str) -> bytes:
    """Returns a file as another version would write it."""
    keys = {f"slicebench.history.{name}": value for name, value in metadata.items()}
    sink = io.BytesIO()
    pq.write_table(table.replace_schema_metadata(keys), sink)
    return sink.getvalue()


def test_what_is_written_is_read() -> None:
    file = read_file(to_file(table_of(ROWS), ["rows/a", "rows/b"]))
    assert [one["run_id"] for one in file.table.to_pylist()] == ["run-0", "run-1"]
    assert str(file.table["values"].to_pylist()) == "[[1.0, 2.0, 3.0], [nan, 0.0]]"
    assert file.replaces == {"rows/a", "rows/b"}
    assert not file.newer
    assert to_file(table_of(ROWS)) == to_file(table_of(ROWS))


def test_an_older_file_lacks_columns_and_is_filled_up() -> None:
    old = table_of(ROWS).select(["run_id", "began_at", "series", "values"])
    (first, _) = read_file(rewritten(old, version="0", readable_from="0")).table.to_pylist()
    assert set(first) == set(COLUMNS)
    assert (first["run_id"], first["track"], first["collected_at"]) == ("run-0", "", 0.0)


def test_a_newer_file_is_read_as_far_as_it_means_the_same() -> None:
    more = table_of(ROWS).append_column("mood", pa.array(["good", "bad"]))
    file = read_file(rewritten(more, version="7", readable_from="1"))
    assert file.newer
    assert file.table.column_names == list(COLUMNS)


def test_a_newer_file_that_would_mislead_is_refused() -> None:
    with pytest.raises(NewerSchema, match="history 2 or newer"):
        read_file(rewritten(table_of(ROWS), version="2", readable_from="2"))


def test_nothing_is_null_and_numbers_may_be_of_another_width() -> None:
    table = table_of(ROWS)
    table = table.set_column(table.column_names.index("cause"), "cause", pa.array(["x", None]))
    narrow = pa.array([[1.0], None], pa.list_(pa.float32()))
    table = table.set_column(table.column_names.index("values"), "values", narrow)
    (_, second) = read_file(rewritten(table)).table.to_pylist()
    assert (second["cause"], second["values"]) == ("", [])


@pytest.mark.parametrize("keep", [0, 4, 100, -1, -300])
def test_a_file_cut_short_is_damaged(keep: int) -> None:
    with pytest.raises(Damaged):
        read_file(to_file(table_of(ROWS))[:keep])


@pytest.mark.parametrize(
    ("table", "metadata", "why"),
    [
        (pa.table({"a": [1]}), {}, "lacks the column run_id, began_at, series, values"),
        (table_of(ROWS), {"version": "new"}, "no number"),
        (table_of(ROWS), {"replaces": "{}"}, "no list of names"),
        (table_of(ROWS), {"replaces": "["}, "Expecting value"),
        (
            table_of(ROWS).drop_columns(["values"]).append_column("values", pa.array(["a", "b"])),
            {},
            "its column values holds text where lists of numbers belong",
        ),
        (
            table_of(ROWS).set_column(2, "began_at", pa.array(["yesterday", "1"])),
            {},
            "its column began_at holds text where numbers belong",
        ),
    ],
)
def test_another_file_is_refused(table: pa.Table, metadata: dict[str, str], why: str) -> None:
    with pytest.raises(Damaged, match=why):
        read_file(rewritten(table, **metadata))
