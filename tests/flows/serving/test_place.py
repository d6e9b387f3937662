"""What `slicebench up` writes down of its processes: found again while they run, and nobody else in their place."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import psutil
import pytest

from flows.serving.place import Process


def test_a_process_is_found_while_it_runs_and_not_when_it_has_ended() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        process = Process.of("child", child.pid)
        found = process.found()
        assert found is not None and found.pid == child.pid
        child.communicate(b"\n")
    assert process.found() is None


def test_who_sets_the_clock_ends_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process.of("this", os.getpid())
    monkeypatch.setattr(psutil._pslinux, "boot_time", lambda: 0.0)
    assert process.found() is not None


def test_a_pid_of_an_earlier_start_of_the_machine_or_of_another_moment_is_another_process() -> None:
    process = Process.of("this", os.getpid())
    assert replace(process, boot_id="before").found() is None
    assert replace(process, started_at=process.started_at - 1).found() is None
