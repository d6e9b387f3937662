"""Bytes and requests are those of the block, without what measuring reads."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from runtime.collectors.cpu_time import cpu_time
from runtime.collectors.own_reads import OwnReads
from runtime.collectors.process_io import process_io
from runtime.measure import Collector

Measure = Callable[[Collector], AbstractContextManager[dict[str, float]]]
CHUNK = 1 << 16
CHUNKS = 400


@pytest.fixture
def own() -> OwnReads:
    return OwnReads()


@pytest.fixture
def collector(own: OwnReads) -> Collector:
    made = process_io(own)
    assert made is not None
    return made


def test_known_amount_written(collector: Collector, measuring: Measure, tmp_path: Path) -> None:
    with measuring(collector) as told, (tmp_path / "f").open("wb", buffering=0) as file:
        for _ in range(CHUNKS):
            file.write(b"x" * CHUNK)
    assert told["written_bytes"] == pytest.approx(CHUNK * CHUNKS, rel=0.05)
    assert told["write_requests"] == pytest.approx(CHUNKS, rel=0.05)
    assert told["read_bytes"] < 0.05 * CHUNK * CHUNKS


def test_known_amount_read(collector: Collector, measuring: Measure, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"x" * CHUNK * CHUNKS)
    with measuring(collector) as told, path.open("rb", buffering=0) as file:
        while file.read(CHUNK):
            pass
    assert told["read_bytes"] == pytest.approx(CHUNK * CHUNKS, rel=0.05)
    assert told["read_requests"] == pytest.approx(CHUNKS, rel=0.05)
    assert told["written_bytes"] < 0.05 * CHUNK * CHUNKS


def test_disk_bytes_written_are_told(collector: Collector, measuring: Measure) -> None:
    path = Path(__file__).with_name(".written-by-test")  # the checkout lies on a disk, /tmp may not
    try:
        with measuring(collector) as told, path.open("wb") as file:
            file.write(b"x" * CHUNK * CHUNKS)
            file.flush()
            os.fsync(file.fileno())
    finally:
        path.unlink()
    assert told["disk_written_bytes"] == pytest.approx(CHUNK * CHUNKS, rel=0.05)


def test_reads_for_measuring_are_left_out(collector: Collector, own: OwnReads, measuring: Measure) -> None:
    status = own.open("/proc/self/status")
    with measuring(collector) as told:
        for _ in range(1000):
            own.read(status)
    assert told["read_requests"] < 20
    assert told["read_bytes"] < 10_000


def test_kernel_without_counters_gives_no_collector(own: OwnReads, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: str | Path) -> int:
        raise PermissionError(path)

    monkeypatch.setattr(own, "open", refused)
    assert process_io(own) is None


def test_cpu_time_is_that_of_busy_work_in_any_thread(measuring: Measure) -> None:
    def work() -> None:
        end = time.thread_time() + 0.1
        while time.thread_time() < end:
            pass

    threads = [threading.Thread(target=work) for _ in range(2)]
    began = time.process_time()
    with measuring(cpu_time()) as told:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    spent = time.process_time() - began  # by the two and by whatever else this process had to do
    assert 0.2 * 0.95 < told["cpu_s"] < spent * 1.05


def test_waiting_costs_no_cpu_time(measuring: Measure) -> None:
    with measuring(cpu_time()) as told:
        threading.Event().wait(0.1)
    assert told["cpu_s"] < 0.05
