"""Counters of a host against what is known to have happened, within 5 %, and the file that they are sampled into."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from runtime.contract.names import HOST_FILE, host_file
from runtime.results_io import seal
from runtime.supervision.host_counters import HostCounters, read
from tests.waiting import until

MIB = 1 << 20
TRIES = 20

STAT = """\
cpu  400 100 200 1000 50 10 10 30 0 0
cpu0 200 50 100 500 25 5 5 15 0 0
cpu1 200 50 100 500 25 5 5 15 0 0
intr 12345
"""
MEMORY = (
    "MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 600 kB\nCached: 50 kB\nDirty: 7 kB\nWriteback: 0 kB\n"
)
NETWORK = (
    "Inter-|\n face |\n  eth0: 100 1 0 0 0 0 0 0 200 2 0 0 0 0 0 0\n    lo:5 1 0 0 0 0 0 0 6 1 0 0 0 0 0 0\n"
)
DISKS = """\
   8       0 sda 10 0 100 0 20 0 200 0 0 0 0
   8       1 sda1 10 0 100 0 20 0 200 0 0 0 0
   7       0 loop0 10 0 100 0 20 0 200 0 0 0 0
"""


def made(root: Path) -> Path:
    for name, text in {"stat": STAT, "meminfo": MEMORY, "net/dev": NETWORK, "diskstats": DISKS}.items():
        (root / "proc" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "proc" / name).write_text(text)
    for device in ("sda", "loop0"):
        (root / "sys/block" / device).mkdir(parents=True)
    return root


def test_what_the_kernel_writes_is_read(tmp_path: Path) -> None:
    assert os.sysconf("SC_CLK_TCK") == 100, "as on every Linux that we know"
    assert read(made(tmp_path)) == {
        "cpu_s": {"all": {"user": 5.0, "system": 2.2, "iowait": 0.5, "steal": 0.3, "idle": 10.0}},
        "memory_bytes": {
            "total": 1024000,
            "available": 614400,
            "cached": 51200,
            "dirty": 7168,
            "writeback": 0,
        },
        "network_bytes": {"eth0": {"received": 100, "sent": 200}, "lo": {"received": 5, "sent": 6}},
        "disk_bytes": {"sda": {"read": 51200, "written": 102400}},
    }


def test_processors_of_different_speed_are_told_apart(tmp_path: Path) -> None:
    for number, capacity in enumerate(("1024", "512")):
        folder = tmp_path / "sys/devices/system/cpu" / f"cpu{number}"
        folder.mkdir(parents=True)
        (folder / "cpu_capacity").write_text(f"{capacity}\n")
    made(tmp_path)
    assert set(read(tmp_path)["cpu_s"]) == {"capacity 1024", "capacity 512"}


def test_what_a_host_hides_is_left_out(tmp_path: Path) -> None:
    root = made(tmp_path)
    (root / "proc/diskstats").unlink()
    assert set(read(root)) == {"cpu_s", "memory_bytes", "network_bytes"}


def expect(amount: float, do: Callable[[], None], value: Callable[[], float]) -> None:
    """Does it until a counter has risen by `amount` within 5 %: others on this host count as well, so it may rise by
    more; by less it may never."""
    found = []
    for _ in range(TRIES):
        before = value()
        do()
        found.append(value() - before)
        assert found[-1] >= 0.95 * amount
        if found[-1] <= 1.05 * amount:
            return
    raise AssertionError(f"{amount} moved, and {found} was counted")


def test_bytes_sent_are_counted() -> None:
    """Through loopback, where what one end sends the other receives; headers are counted by the kernel too."""
    amount = 64 * MIB

    def send() -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            sender = threading.Thread(target=_send, args=(server.getsockname(), amount))
            sender.start()
            connection, _ = server.accept()
            with connection:
                left = amount
                while left:
                    left -= len(connection.recv(MIB))
            sender.join()

    expect(amount, send, lambda: read()["network_bytes"]["lo"]["sent"])


def _send(address: tuple[str, int], amount: int) -> None:
    with socket.create_connection(address) as sock:
        for _ in range(amount // MIB):
            sock.sendall(bytes(MIB))


def test_bytes_written_to_a_disk_are_counted(tmp_path: Path) -> None:
    amount = 32 * MIB
    device = tmp_path.stat().st_dev
    block = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}")
    name = block.resolve().name if block.exists() else ""
    disks = read().get("disk_bytes", {})
    disk = next((each for each in sorted(disks, key=len, reverse=True) if name.startswith(each)), None)
    if disk is None:
        pytest.skip(f"{tmp_path} lies on no disk of this host")

    def write() -> None:
        with (tmp_path / "data").open("wb") as file:
            file.write(os.urandom(amount))
            file.flush()
            os.fsync(file.fileno())

    expect(amount, write, lambda: read()["disk_bytes"][disk]["written"])


def test_memory_in_use_is_counted() -> None:
    amount = 128 * MIB
    held = []  # until the end: what is given back comes again from lists of free pages that count as used

    def used() -> float:
        memory = read()["memory_bytes"]
        return float(memory["total"] - memory["available"])

    found = []
    for _ in range(16):  # others take and free memory, too
        before = used()
        held.append(b"\1" * amount)
        found.append(used() - before)
        if abs(found[-1] - amount) <= 0.15 * amount:  # a wrong unit or sign is further off by far
            return
    raise AssertionError(f"{amount} taken, and {found} was counted")


def test_times_of_all_processors_add_up_to_the_time_that_passed() -> None:
    def spent() -> float:
        return sum(sum(kinds.values()) for kinds in read()["cpu_s"].values())

    began, before = time.monotonic(), spent()
    until(lambda: time.monotonic() - began > 2.0)
    passed, counted = time.monotonic() - began, spent() - before
    lines = Path("/proc/stat").read_text().splitlines()
    processors = sum(line.startswith("cpu") and line[3].isdigit() for line in lines)
    # Virtual machines count what the host took from them on top; a wrong unit or a processor too many is further off.
    assert counted == pytest.approx(processors * passed, rel=0.25)


def test_samples_go_into_the_scratch_and_sealing_brings_them_home(tmp_path: Path) -> None:
    scratch, told = tmp_path / "scratch", []
    scratch.mkdir()
    tpu = {"0": {"memory_used_bytes": 1.0}}
    counters = HostCounters(scratch / HOST_FILE, told.append, lambda: tpu, every_s=0.01)
    until(lambda: (scratch / HOST_FILE).exists() and (scratch / HOST_FILE).read_bytes().count(b"\n") > 2)
    counters.stop()
    with (scratch / HOST_FILE).open("ab") as file:
        file.write(b'{"at":1,"torn')
    seal(scratch, str(tmp_path / "run"), 2, 3)
    samples = [json.loads(line) for line in (tmp_path / "run" / host_file(2, 3)).read_text().splitlines()]
    assert len(samples) > 3
    assert all(sample["host"] == socket.gethostname() and sample["tpu"] == tpu for sample in samples)
    assert sorted(sample["at"] for sample in samples) == [sample["at"] for sample in samples]
    assert told == []


def test_a_file_that_cannot_be_written_is_told_once(tmp_path: Path) -> None:
    told: list[str] = []
    counters = HostCounters(tmp_path / "nowhere" / HOST_FILE, told.append, every_s=0.01)
    until(lambda: told)
    counters.stop()
    assert len(told) == 1 and "no longer taken" in told[0]
