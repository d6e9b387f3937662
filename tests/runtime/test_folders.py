"""Folders of repeats go also where somebody still writes; and when nobody does any more is seen."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from etils import epath

from runtime import folders
from tests.waiting import PATIENCE_S


@pytest.fixture
def full(tmp_path: Path) -> epath.Path:
    """A folder with a file in a folder."""
    path = epath.Path(tmp_path / "repeat")
    (path / "d").mkdir(parents=True)
    (path / "d" / "0").write_text("12345")
    return path


@pytest.fixture
def after_rmtree(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Path]]:
    """Lets something happen at each removal of a tree, in turn; it returns the folders that were to go."""
    real, gone = shutil.rmtree, []

    def have(*events: Callable[[Path], None]) -> list[Path]:
        left = list(events)

        def remove(path: str) -> None:
            gone.append(Path(path))
            if left:
                left.pop(0)(Path(path))
            else:
                real(path)

        monkeypatch.setattr(shutil, "rmtree", remove)
        return gone

    return have


def not_empty(path: Path) -> None:
    raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), "d")


def renamed_meanwhile(path: Path) -> None:
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "0.__lock")


def made_anew(path: Path) -> None:
    (path / "d" / "1").write_text("6")


@pytest.mark.parametrize("event", [not_empty, renamed_meanwhile, made_anew])
def test_what_still_is_written_is_removed_again(
    full: epath.Path, after_rmtree: Callable[..., list[Path]], event: Callable[[Path], None]
) -> None:
    gone = after_rmtree(event, event)
    folders.remove(full)
    assert not full.exists() and len(gone) == 3


@pytest.mark.parametrize("event", [not_empty, renamed_meanwhile, made_anew])
def test_what_never_ends_is_told(
    full: epath.Path, after_rmtree: Callable[..., list[Path]], event: Callable[[Path], None]
) -> None:
    after_rmtree(*[event] * 1000)
    with pytest.raises(OSError, match="Directory not empty") as told:
        folders.remove(full, within_s=0)
    assert told.value.errno == errno.ENOTEMPTY


def test_what_cannot_go_is_told_at_once(full: epath.Path, after_rmtree: Callable[..., list[Path]]) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(errno.EACCES, "no")

    gone = after_rmtree(refuse)
    with pytest.raises(PermissionError):
        folders.remove(full)
    assert len(gone) == 1


def test_a_folder_that_is_not_there_is_no_error(tmp_path: Path) -> None:
    folders.remove(epath.Path(tmp_path / "none"))


@pytest.fixture
def writer(full: epath.Path) -> Iterator[Callable[[int], threading.Thread]]:
    """Writes so many files, one after the other, each open for a while, and until the next one is."""
    threads: list[threading.Thread] = []
    began = threading.Event()

    def write(number: int) -> None:
        with contextlib.ExitStack() as last:
            for each in range(number):
                file = (full / "d" / f"new{each}").open("w")
                began.set()
                last.pop_all().close()
                last.enter_context(file)
                time.sleep(0.1)
                file.write("6")

    def start(number: int) -> threading.Thread:
        threads.append(threading.Thread(target=write, args=(number,)))
        threads[-1].start()
        assert began.wait(PATIENCE_S)
        return threads[-1]

    yield start
    for each in threads:
        each.join()


def test_quiet_is_when_nobody_writes(
    full: epath.Path, writer: Callable[[int], threading.Thread], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert folders.await_quiet(full, 60) is None
    began, thread = time.monotonic(), writer(4)
    last = folders.await_quiet(full, 60)
    assert not thread.is_alive(), "it waited for all files"
    assert last is not None and began < last < time.monotonic()


def test_who_never_stops_writing_is_told(full: epath.Path) -> None:
    with (full / "d" / "0").open("a"), pytest.raises(TimeoutError, match="are still written"):
        folders.await_quiet(full, 0.1)


def test_a_file_that_is_removed_and_open_is_still_written(full: epath.Path) -> None:
    with (full / "d" / "0").open("a"):
        folders.remove(full)
        with pytest.raises(TimeoutError):
            folders.await_quiet(full, 0.1)


def test_of_a_bucket_nothing_is_told() -> None:
    assert folders.await_quiet(epath.Path("gs://bucket/repeat"), 0) is None
