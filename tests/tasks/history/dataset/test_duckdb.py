"""DuckDB and pandas read the history as docs/history.md shows it, also while somebody is at work on it."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pandas
import pytest

from tasks.cloud.storage import open_folder
from tasks.history.dataset.compaction import compact
from tasks.history.dataset.store import Dataset
from tests.tasks.history.dataset.making import BEGAN, DAY, NOW, Failing, Killed, row

LINE = r'duckdb\.sql\("(.*)"\)'
PAGE = Path(__file__).parents[4] / "docs" / "history.md"


def test_duckdb_reads_it_in_one_line(tmp_path: Path) -> None:
    dataset = Dataset(open_folder(str(tmp_path)))
    for n in (0, 1, 30):
        dataset.append([row(n)])
    line, _ = re.findall(LINE, PAGE.read_text())
    query = line.replace("~/.slicebench/history", str(tmp_path))
    before = duckdb.sql(query).fetchall()
    assert len(before) == 3 and {found[2] for found in before} == {2.0}
    compact(dataset)
    assert sorted(duckdb.sql(query).fetchall()) == sorted(before)
    assert duckdb.sql(f"from '{tmp_path}/rows/**/*.parquet' where month = '2026-12'").fetchall() != []


def test_each_row_is_read_once_while_a_compaction_is_unfinished_and_where_a_run_was_recorded_twice(
    tmp_path: Path,
) -> None:
    folder = open_folder(str(tmp_path))
    dataset = Dataset(folder)
    for n in (0, 1, 2):
        dataset.append([row(n)])
    dataset.append([row(1, [9.0], collected_at=NOW)])
    dataset.append(
        [row(0, [5.0], began_at=BEGAN + 9 * DAY, collected_at=NOW)]
    )  # another run of the same name
    with pytest.raises(Killed):
        compact(
            Dataset(Failing(folder, 2, "before"))
        )  # what replaces them is there, and all of them still are
    assert len(list(folder.names("rows"))) == 6
    ours = [(one["run_id"], one["values"]) for one in dataset.read().table().to_pylist()]
    _, query = re.findall(LINE, PAGE.read_text())
    found = duckdb.sql(
        f"select run_id, values from ({query.replace('~/.slicebench/history', str(tmp_path))})"
    )
    assert sorted(found.fetchall()) == sorted(ours)
    (line,) = re.findall(r"    (rows\[.*)", PAGE.read_text())
    rows = eval(line, {"rows": pandas.read_parquet(tmp_path / "rows")})
    assert sorted(
        (one, list(values)) for one, values in zip(rows.run_id, rows["values"], strict=True)
    ) == sorted(ours)
