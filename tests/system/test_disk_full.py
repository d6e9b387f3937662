"""The disk fills up in the middle of a save: the run ends, says so, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from runtime.contract.job import LEASE_VARIABLE
from tests.system.prefect_station import PATIENCE_S, ROOT, wait_for

SIZE = 256 * 2**20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk takes root: run the tests as root")
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(disk)], check=True)
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def _fill(disk: Path) -> None:
    with (disk / "filler").open("wb", buffering=0) as filler:
        try:
            while True:
                filler.write(bytes(2**20))
        except OSError:
            return


def _labelled(run_id: str) -> list[int]:
    found = []
    for process in psutil.process_iter():
        try:
            lease = process.environ().get(LEASE_VARIABLE, "")
        except psutil.Error:
            continue
        if lease.startswith(run_id):
            found.append(process.pid)
    return found


@pytest.mark.system
def test_a_disk_that_fills_up_during_saves_is_told(small_disk: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "flows.cli.main",
        "run",
        "quickstart",
        "--no-server",
        "--run-id",
        "fills-up",
    ]
    run = subprocess.Popen(
        [*command, "--output", str(small_disk / "runs"), "--set", "num_repeats=20000"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    folder = small_disk / "runs" / "fills-up"
    try:
        wait_for(lambda: any(folder.glob("checkpoints/*/repeat_[3-9]*")) or run.poll() is not None)
        _fill(small_disk)
        told, _ = run.communicate(timeout=PATIENCE_S)
    finally:
        run.kill()

    assert run.returncode in (1, 3), told
    assert "space" in told.lower(), told
    assert _labelled("fills-up") == []
    outcome = folder / "outcome.json"
    if outcome.exists():  # the disk may be too full even for that; then the terminal has said it
        assert json.loads(outcome.read_text())["exit_code"] == run.returncode
