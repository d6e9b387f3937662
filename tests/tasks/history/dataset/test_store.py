"""What is written into the history is there once, whoever writes, dies or writes again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from runtime.contract.errors import InfrastructureError
from tasks.cloud.storage import Folder, open_folder
from tasks.history.dataset.moments import month_of
from tasks.history.dataset.store import Dataset
from tests.tasks.history.dataset.making import BEGAN, DAY, Failing, Killed, row


@pytest.fixture(params=["local", "gs"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Folder:
    if request.param == "local":
        return open_folder(str(tmp_path / "history"))
    return open_folder(f"{request.getfixturevalue('gcs_bucket')}/history")


def runs(folder: Folder) -> list[tuple[str, list[float]]]:
    return [(one["run_id"], one["values"]) for one in Dataset(folder).read().table().to_pylist()]


def test_rows_are_read_as_they_were_written(folder: Folder) -> None:
    assert runs(folder) == []
    (name,) = Dataset(folder).append([row(1)])
    (again,) = Dataset(folder).append([row(1)])
    Dataset(folder).append([row(0)])
    assert name == again and name.startswith("rows/month=2026-11/run-1-")
    assert runs(folder) == [("run-0", [1.0, 2.0, 3.0]), ("run-1", [1.0, 2.0, 3.0])]
    assert Dataset(folder).append([]) == []


def test_two_writers_at_once_lose_nothing(folder: Folder) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: Dataset(folder).append([row(n % 8)]), range(16)))
    assert [run for run, _ in runs(folder)] == [f"run-{n}" for n in range(8)]


def test_of_a_run_that_was_recorded_again_what_was_collected_last_counts(tmp_path: Path) -> None:
    dataset = Dataset(open_folder(str(tmp_path)))
    other = row(0, benchmark_key="other", operation="restore")
    dataset.append([row(0, [9.0], collected_at=BEGAN + 5 * DAY)])
    dataset.append([row(0, [1.0]), other])
    assert [one["values"] for one in dataset.read().table().to_pylist()] == [[9.0]]


def test_two_runs_with_one_id_are_two(tmp_path: Path) -> None:
    dataset = Dataset(open_folder(str(tmp_path)))
    dataset.append([row(0, [1.0], run_id="same")])
    dataset.append([row(1, [2.0], run_id="same")])
    assert [one["values"] for one in dataset.read().table().to_pylist()] == [[1.0], [2.0]]


@pytest.mark.parametrize("keep", [0, 4, 100, -1])
def test_a_file_cut_short_is_told_and_the_others_count(tmp_path: Path, keep: int) -> None:
    dataset = Dataset(open_folder(str(tmp_path)))
    (name,) = dataset.append([row(0)])
    dataset.append([row(1)])
    (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:keep])
    stored = Dataset(dataset.folder).read()
    assert [one["run_id"] for one in stored.table().to_pylist()] == ["run-1"]
    (trouble,) = stored.troubles
    assert trouble.startswith(f"{tmp_path}/{name} cannot be read: ")
    dataset.append([row(0)])  # written again, it is whole again
    assert [run for run, _ in runs(dataset.folder)] == ["run-0", "run-1"]


@pytest.mark.parametrize("dies", [Killed, InfrastructureError])
@pytest.mark.parametrize("when", ["before", "after"])
def test_whoever_dies_at_a_write_can_write_again(
    tmp_path: Path, when: str, dies: type[BaseException]
) -> None:
    folder = open_folder(str(tmp_path))
    rows = [row(0), row(0, operation="restore"), row(0, operation="recovery", began_at=BEGAN - 40 * DAY)]
    for nth in (1, 2):
        with pytest.raises(dies):
            Dataset(Failing(folder, nth, when, dies)).append(rows)
    Dataset(folder).append(rows)
    found = Dataset(folder).read().table().to_pylist()
    assert sorted(one["operation"] for one in found) == ["recovery", "restore", "save"]


def test_a_file_that_goes_while_we_read_is_looked_for_again(tmp_path: Path) -> None:
    folder = open_folder(str(tmp_path))
    (name,) = Dataset(folder).append([row(0)])
    Dataset(folder).append([row(1)])

    class Going(Failing):
        def read(self, asked: str, start: int = 0) -> bytes | None:
            if asked == name:
                folder.delete(name)
            return folder.read(asked, start)

    table = Dataset(Going(folder, 0, "never")).read().table()
    assert [one["run_id"] for one in table.to_pylist()] == ["run-1"]


def test_a_look_that_falls_between_a_file_and_its_successor_is_taken_again(tmp_path: Path) -> None:
    folder = open_folder(str(tmp_path))
    (name,) = Dataset(folder).append([row(0)])
    looks = iter([[], [name], [name], [name]])

    class Moving(Failing):
        def names(self, prefix: str = "") -> iter:  # type: ignore[valid-type]
            return iter(next(looks))

    assert len(Dataset(Moving(folder, 0, "never")).read().table()) == 1


@pytest.mark.parametrize("at", [0.0, float("nan"), float("inf"), -1e9, 1e20])
def test_what_is_no_time_has_a_month_too(at: float) -> None:
    assert month_of(at) == "unknown"
