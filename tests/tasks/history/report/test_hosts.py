"""What the report says of hosts: literal counters in, words out; what cannot be read is left out."""

from __future__ import annotations

import json
from typing import Any

from tasks.cloud.storage import open_folder
from tasks.history.comparison import judge
from tasks.history.report.hosts import HEADINGS, host_rows
from tasks.history.report.page import Surroundings, render_report
from tasks.stages.report import _hosts
from tests.tasks.history.test_comparison import finished

MIB = 1 << 20


def sample(at: float, *, busy: float, sent: int = 0, used: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "at": at,
        "host": "vm-0",
        "cpu_s": {"all": {"user": busy, "system": 0.0, "iowait": 0.0, "steal": 0.0, "idle": 2 * at - busy}},
        "memory_bytes": {"total": 1024 * MIB, "available": (1024 - used) * MIB, "dirty": 7 * MIB},
        "network_bytes": {"lo": {"received": 1, "sent": 1}, "eth0": {"received": MIB, "sent": sent * MIB}},
        "disk_bytes": {"sda": {"read": 0, "written": 3 * sent * MIB}},
        **more,
    }


def lines(*samples: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in samples)


QUIET = lines(
    sample(100, busy=0, used=100),
    sample(101, busy=2, sent=10, used=300),
    sample(110, busy=5, sent=64, used=200),
)


def test_a_host_is_told_in_one_line() -> None:
    (row,) = host_rows({0: QUIET, 1: QUIET})
    assert len(row) == len(HEADINGS)
    assert row == (
        ("vm-0", "workers 0, 1"),
        ("25 % busy", "at most 100 %"),
        ("300 MiB", "of 1.00 GiB"),
        ("7.00 MiB", ""),
        ("0 B received, 64.0 MiB sent", "most through eth0"),
        ("0 B read, 192 MiB written", "most through sda"),
        ("–", ""),
    )


def test_a_tpu_is_told_where_its_runtime_answered() -> None:
    tpu = {str(n): {"memory_used_bytes": n * MIB, "duty_cycle_percent": 40.0 * n} for n in (1, 2)}
    (row,) = host_rows({0: lines(sample(1, busy=0), sample(2, busy=1, tpu=tpu))})
    assert row[-1] == ("2.00 MiB on one of 2", "at most 80 % busy")


def test_what_cannot_be_read_is_left_out() -> None:
    assert host_rows({}) == []
    assert host_rows({0: b"", 1: b"[1]\nnull\n{\n", 2: lines(sample(1, busy=0))}) == []
    (row,) = host_rows({0: b"\xff{torn\n" + lines({"at": 1, "cpu_s": 7}, {"at": 2, "memory_bytes": []})})
    assert [cell[0] for cell in row[1:]] == ["–"] * 6


def test_the_report_shows_the_latest_attempt_quietly(tmp_path: Any) -> None:
    folder = open_folder(str(tmp_path))
    for attempt, worker, content in ((1, 0, b"old"), (10, 0, QUIET), (9, 0, b"older"), (1, 1, b"")):
        folder.write(f"results/host-a{attempt}-w{worker:04d}.jsonl", content)
    folder.write("results/samples-a1-w0000.parquet", b"")
    assert _hosts(folder) == {0: QUIET, 1: b""}
    page = render_report(finished(), judge(finished(), []), Surroundings(hosts=_hosts(folder)))
    assert "What the workers&#39; hosts did" in page or "What the workers' hosts did" in page
    assert "64.0 MiB sent" in page
    assert "hosts did" not in render_report(finished(), judge(finished(), []), Surroundings())
