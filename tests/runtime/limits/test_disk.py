"""The disk's limits: as many bytes as are told of are moved, in the time that is told, and nothing is left."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runtime.contract.limits import DISK_READ, DISK_WRITE
from runtime.limits import disk

MIB = 1 << 20
PASS = 32 * MIB


class Moved:
    """Keeps what goes through the kernel's calls, from several threads at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.written, self.read, self.flushed = list[int](), list[int](), 0
        write, read, flush = os.pwrite, os.preadv, os.fdatasync

        def pwrite(fd: int, data: bytes, offset: int) -> int:
            self.written.append(write(fd, data, offset))
            return len(data)

        def preadv(fd: int, buffers: list[bytearray], offset: int) -> int:
            size = read(fd, buffers, offset)
            self.read.append(size)
            return size

        def fdatasync(fd: int) -> None:
            flush(fd)
            self.flushed += 1

        monkeypatch.setattr(os, "pwrite", pwrite)
        monkeypatch.setattr(os, "preadv", preadv)
        monkeypatch.setattr(os, "fdatasync", fdatasync)


@pytest.fixture
def moved(monkeypatch: pytest.MonkeyPatch) -> Moved:
    return Moved(monkeypatch)


def test_what_is_told_is_what_was_moved(tmp_path: Path, moved: Moved) -> None:
    met: list[int] = []
    found = disk.disk(str(tmp_path / "new"), "ext4", ".limits", lambda: met.append(len(moved.read)), PASS)
    write, read = found[DISK_WRITE], found[DISK_READ]
    assert not write.skipped and not read.skipped
    assert write.how == read.how in (disk.DIRECT, disk.FLUSHED)
    assert sum(moved.written) == len(write.values) * write.size_bytes == len(write.values) * PASS
    assert sum(moved.read) == len(read.values) * read.size_bytes
    assert moved.flushed == len(write.values) >= 1
    assert met == [0, 0], "workers meet before either"
    assert not list((tmp_path / "new").iterdir())


def test_a_speed_is_bytes_over_the_time_of_a_pass(tmp_path: Path) -> None:
    """By a clock that goes on only once a pass is through: 0.125 s for each."""
    import runtime.limits.disk as module

    now = [0.0]
    plain = module._moved

    def moves(*arguments: object) -> int:
        size = plain(*arguments)  # type: ignore[arg-type]
        now[0] += 0.125
        return size

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_moved", moves)
        found = disk.disk(str(tmp_path), "ext4", ".limits", lambda: None, PASS, lambda: now[0])
    for limit in found.values():
        assert limit.values == (PASS / 0.125,) * 3


def test_a_slow_disk_is_not_asked_again(tmp_path: Path) -> None:
    now = iter(range(10_000))
    found = disk.disk(str(tmp_path), "ext4", ".limits", lambda: None, PASS, lambda: float(next(now)))
    assert [len(limit.values) for limit in found.values()] == [1, 1]


def test_a_file_system_that_cannot_go_past_the_cache_is_flushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = os.open

    def refuses(path: Path, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_DIRECT:
            Path(path).touch()  # some make the file, and refuse then
            raise OSError(22, "Invalid argument")
        return plain(path, flags, mode)

    monkeypatch.setattr(os, "open", refuses)
    found = disk.disk(str(tmp_path), "nfs", ".limits", lambda: None, PASS)
    assert [limit.how for limit in found.values()] == [disk.FLUSHED] * 2
    assert disk.disk(str(tmp_path), "tmpfs", ".l", lambda: None, PASS)[DISK_READ].how == disk.IN_MEMORY
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("output", "why"), [("gs://bucket/run", "the output is a bucket"), ("/proc/no", "No such file")]
)
def test_what_cannot_be_measured_says_why_and_all_meet_nevertheless(output: str, why: str) -> None:
    met: list[str] = []
    found = disk.disk(output, "?", ".limits", lambda: met.append("here"), PASS)
    assert [why in limit.skipped for limit in found.values()] == [True, True]
    assert len(met) == 2


def test_a_disk_that_is_nearly_full_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = list(os.statvfs(tmp_path))
    told[4] = 100 * MIB // told[1]  # f_bavail in units of f_frsize
    monkeypatch.setattr(os, "statvfs", lambda path: os.statvfs_result(told))
    found = disk.disk(str(tmp_path), "ext4", ".limits", lambda: None, PASS)
    assert found[DISK_WRITE].skipped == found[DISK_READ].skipped == "only 100 MiB are free in the output"


def test_a_disk_that_fails_in_the_middle_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "preadv", lambda fd, buffers, offset: 7)
    found = disk.disk(str(tmp_path), "ext4", ".limits", lambda: None, PASS)
    assert found[DISK_WRITE].values
    assert found[DISK_READ].skipped == "only 7 of 4194304 bytes could be moved"
