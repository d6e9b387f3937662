"""Compaction and retention: each row is there once whenever one looks, wherever they are cut off."""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pandas
import pytest

from tasks.cloud.local_storage import draft
from tasks.cloud.storage import Folder, open_folder
from tasks.history.dataset.compaction import Compacted, compact, forget_months, retain
from tasks.history.dataset.decisions import DECISIONS, decisions_of, rows_of_decisions
from tasks.history.dataset.schema import table_of
from tasks.history.dataset.store import Dataset
from tasks.stages.history import compact_all, retain_days
from tests.tasks.history.dataset.making import BEGAN, DAY, NOW, Failing, Killed, row
from tests.tasks.history.dataset.test_fold import folded, group
from tests.tasks.history.dataset.test_schema import rewritten


@pytest.fixture(params=["local", "gs"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Folder:
    if request.param == "local":
        return open_folder(str(tmp_path / "history"))
    return open_folder(f"{request.getfixturevalue('gcs_bucket')}/history")


@pytest.fixture
def local(tmp_path: Path) -> Folder:
    return filled(open_folder(str(tmp_path / "history")))


def filled(folder: Folder) -> Folder:
    """Five runs: three of November, two of December; one was recorded again."""
    dataset = Dataset(folder)
    for n in (0, 1, 2, 30, 31):
        dataset.append([row(n)])
    dataset.append([row(1, [9.0], collected_at=NOW)])
    return folder


ALL = ["run-0", "run-1", "run-2", "run-30", "run-31"]


def runs(folder: Folder) -> list[str]:
    return [one["run_id"] for one in Dataset(folder).read().table().to_pylist()]


def files(folder: Folder) -> list[str]:
    return list(folder.names("rows"))


def test_a_month_becomes_one_file(folder: Folder) -> None:
    filled(folder)
    before = Dataset(folder).read().table().to_pylist()
    done = compact(Dataset(folder))
    assert (done.before, done.after, len(files(folder))) == (6, 2, 2)
    assert Dataset(folder).read().table().to_pylist() == before
    assert compact(Dataset(folder)).before == 2


def test_what_comes_later_is_compacted_with_it(local: Folder) -> None:
    compact(Dataset(local))
    Dataset(local).append([row(3)])
    Dataset(local).append([row(1, [9.0], collected_at=NOW)])
    compact(Dataset(local))
    assert runs(local) == ["run-0", "run-1", "run-2", "run-3", "run-30", "run-31"]
    assert len(files(local)) == 2


def retain_december(dataset: Dataset) -> object:
    return retain(dataset, BEGAN + 1.5 * DAY)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    ("work", "left"), [(compact, ALL), (retain_december, ALL[2:])], ids=["compact", "retain"]
)
def test_whoever_dies_on_the_way_leaves_each_row_once(
    tmp_path: Path, local: Folder, work: Callable[[Dataset], object], left: list[str], when: str
) -> None:
    for nth in range(1, 99):
        folder = open_folder(str(shutil.copytree(tmp_path / "history", tmp_path / str(nth))))
        failing = Failing(folder, nth, when)
        try:
            work(Dataset(failing))
        except Killed:
            seen = runs(folder)
            assert seen == sorted(set(seen), key=ALL.index) and set(left) <= set(seen)
            work(Dataset(folder))
        assert runs(folder) == left
        if not failing.struck:
            break
    assert nth > 3


def test_a_writer_and_another_compactor_at_work_meanwhile_lose_nothing(local: Folder) -> None:
    class Meanwhile(Failing):
        """Lets others work before each call that changes something."""

        def _do(self, call: Callable[..., object], *given: object) -> object:
            self._left += 1
            Dataset(local).append([row(self._left)])
            if self._left == 2:
                compact(Dataset(local))
            return call(*given)

    compact(Dataset(Meanwhile(local, 2, "never")))
    compact(Dataset(local))
    assert set(ALL) <= set(runs(local)) and len(runs(local)) == len(set(runs(local)))


def test_what_cannot_be_read_or_is_newer_is_left_alone(local: Folder, tmp_path: Path) -> None:
    newer = rewritten(table_of([row(5)]), version="9", readable_from="1")
    local.write("rows/month=2026-11/newer.parquet", newer)
    local.write("rows/month=2026-11/torn.parquet", newer[:50])
    done = compact(Dataset(local))
    assert local.read("rows/month=2026-11/newer.parquet") == newer
    assert local.read("rows/month=2026-11/torn.parquet") == newer[:50]
    assert "torn.parquet" in done.troubles[0]
    assert runs(local) == ["run-0", "run-1", "run-2", "run-5", "run-30", "run-31"]


def test_a_compacted_file_that_is_damaged_brings_back_what_is_left_of_the_others(
    local: Folder, tmp_path: Path
) -> None:
    with pytest.raises(Killed):
        compact(Dataset(Failing(local, 3, "before")))
    (name,) = (one for one in files(local) if "month=2026-11/compacted" in one)
    (tmp_path / "history" / name).write_bytes(b"PAR1")
    assert runs(local) == ALL


def test_retention_keeps_what_began_since(local: Folder) -> None:
    compact(Dataset(local))
    retain(Dataset(local), BEGAN + 1.5 * DAY)
    assert runs(local) == ["run-2", "run-30", "run-31"]
    assert retain(Dataset(local), BEGAN + 25 * DAY).runs == 1
    assert runs(local) == ["run-30", "run-31"] and len(files(local)) == 1


def test_retention_lets_nothing_come_back_that_an_unfinished_compaction_left(local: Folder) -> None:
    with pytest.raises(Killed):
        compact(Dataset(Failing(local, 3, "before")))
    retain(Dataset(local), BEGAN + 25 * DAY)
    assert runs(local) == ["run-30", "run-31"]


def test_decisions_are_compacted_and_forgotten_by_month(tmp_path: Path) -> None:
    dataset = Dataset(open_folder(str(tmp_path)), DECISIONS)
    decisions = folded(group())
    for n, at in ((0, 1.0), (10, 2.0), (10, 3.0)):
        changed = [dataclasses.replace(one, reason=str(at)) for one in decisions[n:]]
        dataset.append_months("x", rows_of_decisions(changed, at))
    before = decisions_of(dataset.read().rows())
    compact(dataset)
    assert decisions_of(Dataset(dataset.folder, DECISIONS).read().rows()) == before
    assert len(list(dataset.folder.names())) == 2
    forget_months(dataset, 1770000000.0)  # 2 February 2026
    assert {one.night[:7] for one in decisions_of(Dataset(dataset.folder, DECISIONS).read().rows())} == {
        "2026-02"
    }


def test_pandas_reads_it_in_one_line(local: Folder, tmp_path: Path) -> None:
    table = pandas.read_parquet(tmp_path / "history" / "rows")
    assert sorted(table["run_id"]) == sorted([*ALL, "run-1"])
    compact(Dataset(local))
    table = pandas.read_parquet(tmp_path / "history" / "rows")
    assert sorted(table["run_id"]) == ALL
    assert table["values"].map(len).tolist() == [3, 1, 3, 3, 3]
    assert sorted(table["month"].unique()) == ["2026-11", "2026-12"]


@pytest.mark.parametrize("work", [compact_all, lambda dataset: retain_days(dataset, 36500)])
def test_what_killed_writers_left_goes_once_it_is_old(
    local: Folder, tmp_path: Path, work: Callable[[Dataset], Compacted]
) -> None:
    month = tmp_path / "history" / "rows" / "month=2026-11"
    with draft(month / "a.parquet") as (path, _):
        old, fresh = month / path.name.replace(".a", ".old"), month / path.name.replace(".a", ".fresh")
    for one in (old, fresh):
        one.write_bytes(b"PAR1")
    os.utime(old, (NOW, NOW - 2 * 365 * DAY))
    assert work(Dataset(local)).cleared == 1
    assert (old.exists(), fresh.exists()) == (False, True)
    assert runs(local) == ALL
