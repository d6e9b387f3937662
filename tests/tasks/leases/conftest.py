"""What the lease tests share: a ledger, inventories, labelled processes, and a clock that stands still."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tasks.leases.directory_ledger import DirectoryLedger
from tasks.leases.inventory import Inventories, open_inventories


@dataclass
class Clock:
    """Seconds since the epoch, moved by hand."""

    at: float = 1_000_000.0

    def __call__(self) -> float:
        return self.at


Spawn = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ledger(tmp_path: Path) -> DirectoryLedger:
    return DirectoryLedger(tmp_path / "ledger")


@pytest.fixture
def inventories(ledger: DirectoryLedger, tmp_path: Path) -> Inventories:
    return open_inventories(ledger, tmp_path / "scratch")


@pytest.fixture
def spawn() -> Iterator[Spawn]:
    """Starts Python code with labels and waits for its first line; kills what is left afterwards."""
    started: list[subprocess.Popen[str]] = []

    def start(
        labels: Mapping[str, str], code: str = "print(flush=True); import time; time.sleep(600)", *more: str
    ):
        process = subprocess.Popen(
            [sys.executable, "-c", code, *more],
            env={**os.environ, **labels},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        assert process.stdout is not None
        process.first_line = process.stdout.readline().strip()  # type: ignore[attr-defined]
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()
