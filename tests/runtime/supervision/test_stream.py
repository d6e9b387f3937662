"""The stream file: numbers without gaps, through torn ends, full disks and second writers."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.contract.errors import InfrastructureError
from runtime.contract.progress import Exited, Log, Stacks, WorkerExited, encode, parse_record
from runtime.supervision import stream as module
from runtime.supervision.stream import Stream, last_record, records


def no_trouble(cause: str) -> None:
    raise AssertionError(cause)


def seqs(path: Path) -> list[int]:
    return [record.seq for record in records(path)]


def test_numbers_go_on_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "s"
    first = Stream(path, no_trouble)
    first.write(Log("a"), Log("b"))
    os.close(first._fd)  # as a kill does
    second = Stream(path, no_trouble)
    assert second.last and second.last.seq == 2
    second.write(Log("c"))
    assert second.close(Exited(0))
    assert seqs(path) == [1, 2, 3, 4]
    assert list(tmp_path.iterdir()) == [path]


def test_a_torn_end_is_cut_off_wherever_it_tore(tmp_path: Path) -> None:
    path = tmp_path / "s"
    whole = encode(Log("a"), seq=1, at=1.0).encode() + b"\n"
    torn = encode(Log("b" * 200_000), seq=2, at=1.0).encode()
    for length in (1, 2, 30, 70_000, len(torn)):
        path.write_bytes(whole + torn[:length])
        stream = Stream(path, no_trouble)
        stream.write(Log("c"))
        stream.close(Exited(0))
        assert seqs(path) == [1, 2, 3]
        assert path.read_bytes().count(b"\n") == 3


def test_garbage_alone_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.write_bytes(b"\x00" * 1000 + b"\nnot json\n")
    stream = Stream(path, no_trouble)
    stream.close(Exited(0))
    assert seqs(path) == [1]


def test_the_last_record_is_found_behind_a_long_one(tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.write_bytes(encode(Log("x" * 300_000), seq=1, at=1.0).encode() + b"\n")
    last = last_record(path)
    assert last and last.seq == 1


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    stream = Stream(tmp_path / "s", no_trouble)
    with pytest.raises(InfrastructureError, match="runs already"):
        Stream(tmp_path / "s", no_trouble)
    stream.close(Exited(0))


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InfrastructureError, match="choose another --output"):
        Stream(tmp_path / "file" / "s", no_trouble)


def test_threads_do_not_mix_lines(tmp_path: Path) -> None:
    path = tmp_path / "s"
    stream = Stream(path, no_trouble)
    threads = [
        threading.Thread(target=lambda: [stream.write(Log("x" * 500), Log("y")) for _ in range(200)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stream.close(Exited(0))
    assert seqs(path) == list(range(1, 1602))
    assert all(parse_record(line) for line in path.read_bytes().splitlines())


class Disk:
    """A disk with room for so many bytes; the reserve gives some back."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.room = 1 << 40
        self._write = os.pwrite
        monkeypatch.setattr(module.os, "pwrite", self.pwrite)

    def pwrite(self, fd: int, data: bytes, offset: int) -> int:
        if self.room <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        taken = self._write(fd, data[: self.room], offset)
        self.room -= taken
        return taken


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    yield Disk(monkeypatch)


def test_a_full_disk_is_told_once_and_the_last_words_fit(tmp_path: Path, disk: Disk) -> None:
    path = tmp_path / "s"
    causes: list[str] = []

    def on_trouble(cause: str) -> None:
        causes.append(cause)
        disk.room = 10_000  # what the reserve held

    stream = Stream(path, on_trouble)
    stream.write(Log("before"))
    disk.room = 50  # a part of the next record fits
    stream.write(Log("x" * 1000))
    stream.write(Log("dropped"), WorkerExited(1, -9))
    assert stream.close(Exited(3, causes[0]))
    assert len(causes) == 1
    assert causes[0].startswith(f"no space left on {tmp_path}")
    assert [type(record.body) for record in records(path)] == [Log, WorkerExited, Exited]
    assert seqs(path) == [1, 2, 3]


def test_a_disk_that_stays_full_never_raises(tmp_path: Path, disk: Disk) -> None:
    causes: list[str] = []
    stream = Stream(tmp_path / "s", causes.append)
    stream.write(Log("before"))
    disk.room = 0
    for _ in range(3):
        stream.write(Log("x"), Stacks("y"))
    assert not stream.close(Exited(3, "cause"))
    assert len(causes) == 1
    assert seqs(tmp_path / "s") == [1]


def test_the_reserve_is_given_back_when_the_disk_is_full(tmp_path: Path, disk: Disk) -> None:
    reserve = tmp_path / ".s.reserve"
    stream = Stream(tmp_path / "s", lambda cause: None)
    assert reserve.stat().st_size > 100_000
    disk.room = 0
    stream.write(Log("x"))
    assert not reserve.exists()
    stream.close(Exited(3))
