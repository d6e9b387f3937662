"""DuckDB reads the history in one line, as docs/history.md shows it."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb

from tasks.cloud.storage import open_folder
from tasks.history.dataset.compaction import compact
from tasks.history.dataset.store import Dataset
from tests.tasks.history.dataset.making import row

PAGE = Path(__file__).parents[4] / "docs" / "history.md"


def test_duckdb_reads_it_in_one_line(tmp_path: Path) -> None:
    dataset = Dataset(open_folder(str(tmp_path)))
    for n in (0, 1, 30):
        dataset.append([row(n)])
    (line,) = re.findall(r'duckdb\.sql\("(.*)"\)', PAGE.read_text())
    query = line.replace("~/.slicebench/history", str(tmp_path))
    before = duckdb.sql(query).fetchall()
    assert len(before) == 3 and {found[2] for found in before} == {2.0}
    compact(dataset)
    assert sorted(duckdb.sql(query).fetchall()) == sorted(before)
    assert duckdb.sql(f"from '{tmp_path}/rows/**/*.parquet' where month = '2026-12'").fetchall() != []
