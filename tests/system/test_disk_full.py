"""The disk fills up in the middle of a save: the run ends, says so, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from runtime.contract.errors import ExitCode
from runtime.contract.job import LEASE_VARIABLE
from tasks.leases.lease import State
from tasks.stages.build import build
from tasks.stages.collect import collect
from tasks.stages.provision import provision
from tasks.stages.run import exit_code_of, run_workload
from tasks.stages.teardown import teardown
from tasks.stages.upload import upload
from tasks.targets.types import Progress
from tests.cloud.sshd import missing, serve_ssh
from tests.system.prefect_station import PATIENCE_S, ROOT, wait_for
from tests.system.test_ssh_run import SLOWLY, SUITE, prepared
from tests.tasks.targets.local_runs import alive_under
from tests.tasks.targets.ssh_runs import hold, host_folder, python_with_jax

SIZE = 256 * 2**20


@contextmanager
def small(disk: Path) -> Iterator[Path]:
    """Makes a folder a disk of its own, on which anybody may write."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk takes root: run the tests as root")
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=1777", "tmpfs", str(disk)], check=True)
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with small(tmp_path / "disk") as disk:
        yield disk


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


@pytest.mark.system
@pytest.mark.skipif(bool(missing()), reason=str(missing()))
def test_a_disk_that_fills_up_on_a_host_is_told_with_the_host() -> None:
    suite = SUITE.replace("num_repeats: 2", "num_repeats: 20000").replace("x: 4", "x: 1")
    user, _ = python_with_jax()
    said: list[str] = []
    with serve_ssh(1, user=user) as hosts, host_folder() as place, small(place / "home") as disk:
        run = prepared(place, hosts, said, suite=suite, output=str(disk / "out"))
        holding = hold(run)

        def fill(progress: Progress) -> None:
            if progress.repeat >= 3 and not (disk / "filler").exists():
                _fill(disk)

        try:
            uploaded = upload(run, provision(run, holding), build(run))
            outcome = run_workload(run, uploaded, holding, fill)
            collected = collect(run)
        finally:
            torn_down = teardown(run, holding, patience=SLOWLY)
        assert exit_code_of(outcome) in (ExitCode.WORKLOAD_FAILED, ExitCode.INFRASTRUCTURE), said
        cause = outcome.attempts[-1].cause
        # Who meets the full disk first, the checkpoint, the journal or the stream, says so in words of its own.
        assert "no space left" in cause.lower() and str(disk) in cause, "the folder on the host is named"
        # A journal that meets it first cannot say how the point ended.
        assert collected.points[0].status in ("failed", "not_run")
        assert "no space left" in collected.points[0].cause.lower()
        assert torn_down.lease.state is State.GONE
        assert alive_under("run-1-e1") == []
        assert list((disk / "runs").iterdir()) == []
