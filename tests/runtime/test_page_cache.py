"""What is in the page cache, known because it was just written, evicted or read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runtime import page_cache
from runtime.benchmarks.benchmark import Context
from runtime.contract.metrics import CACHED
from runtime.contract.results import PointResult, Sample
from runtime.contract.suite import CheckpointSpec, PageCache, Point
from runtime.manifest import file_system
from runtime.measure import Recorder

MIB = 1 << 20


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Four MiB in two files, of which the kernel holds all; on a file system in memory there is nothing to see."""
    folder = tmp_path / "checkpoint"
    (folder / "deep").mkdir(parents=True)
    (folder / "a").write_bytes(os.urandom(MIB))
    (folder / "deep" / "b").write_bytes(os.urandom(3 * MIB))
    if file_system(str(folder)) in ("tmpfs", "ramfs"):
        pytest.skip("the file system of the tests' folders keeps its files in memory")
    return folder


def test_what_was_read_is_there_until_it_is_evicted(checkpoint: Path) -> None:
    assert page_cache.cached_share([str(checkpoint)]) == pytest.approx(1.0, rel=0.05)
    page_cache.evict([str(checkpoint / "deep")])
    assert page_cache.cached_share([str(checkpoint)]) == pytest.approx(0.25, rel=0.05)
    page_cache.evict([str(checkpoint)])
    assert page_cache.cached_share([str(checkpoint)]) == 0.0


def test_what_is_not_on_disk_yet_is_evicted_too(checkpoint: Path) -> None:
    (checkpoint / "new").write_bytes(os.urandom(MIB))
    page_cache.evict([str(checkpoint)])
    assert page_cache.cached_share([str(checkpoint)]) == 0.0
    assert (checkpoint / "new").stat().st_size == MIB


def test_what_cannot_be_looked_into_is_not_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert page_cache.cached_share([str(tmp_path / "none")]) is None
    (tmp_path / "empty").touch()
    (tmp_path / "gone").symlink_to("nowhere")
    page_cache.evict([str(tmp_path)])
    (tmp_path / "gone").unlink()
    assert page_cache.cached_share([str(tmp_path)]) is None
    (tmp_path / "full").write_bytes(b"x")

    def denied(fd: int, size: int) -> int:
        raise PermissionError

    monkeypatch.setattr(page_cache, "_resident", denied)
    assert page_cache.cached_share([str(tmp_path)]) is None


def test_of_very_many_files_the_first_stand_for_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    monkeypatch.setattr(page_cache, "MOST_FILES", 2)
    monkeypatch.setattr(page_cache, "_resident", lambda fd, size: looked.append(fd) or size)
    for name in "abc":
        (tmp_path / name).write_bytes(b"x")
    assert page_cache.cached_share([str(tmp_path)]) == 1.0
    assert len(looked) == 2


def test_large_files_are_looked_at_piece_by_piece(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_cache, "_WINDOW", MIB)
    assert page_cache.cached_share([str(checkpoint)]) == pytest.approx(1.0, rel=0.05)


def test_all_is_dropped_only_where_that_is_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sync", lambda: None)
    monkeypatch.setattr(page_cache, "_DROP", tmp_path / "drop")
    assert page_cache.drop_everything()
    assert (tmp_path / "drop").read_text() == "3\n"
    monkeypatch.setattr(page_cache, "_DROP", tmp_path / "no" / "drop")
    assert not page_cache.drop_everything()


@pytest.mark.parametrize(
    ("asked", "operation", "done", "share"),
    [
        ("", "restore", [], 0.5),
        ("cold", "restore", ["evict"], 0.5),
        ("cold", "load_3", ["evict"], 0.5),
        ("cold", "restore_after_restart", ["evict"], 0.5),
        ("drop", "restore", ["drop", "evict"], 0.5),  # not allowed to
        ("cold", "save", [], None),
        ("cold", "restore", ["evict"], None),  # the kernel does not say
    ],
)
def test_a_restore_reads_as_its_point_asks(
    asked: PageCache,
    operation: str,
    done: list[str],
    share: float | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[str] = []
    monkeypatch.setattr(page_cache, "drop_everything", lambda: bool(calls.append("drop")))
    monkeypatch.setattr(page_cache, "evict", lambda places: calls.append("evict"))
    monkeypatch.setattr(page_cache, "cached_share", lambda places: share)
    kept: list[Sample | PointResult] = []
    point = Point(0, "b", "key", "x.B", "native", {}, None, CheckpointSpec(), page_cache=asked)
    context = Context(point, 0, tmp_path, Recorder(kept, run_id="r"))  # type: ignore[arg-type]
    with context.recorder.repeat(point, 0, False), context.measure(operation):
        assert calls == done, "before the block"
    told = [each.value for each in kept if isinstance(each, Sample) and each.metric == CACHED]
    assert told == ([] if share is None or operation == "save" else [share])
