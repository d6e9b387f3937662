"""Pull the plug on a run whose real supervisors and JAX workers are saving checkpoints: nothing is left of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from tasks.config.home import ledger_folder
from tasks.leases.directory_ledger import DirectoryLedger
from tasks.leases.lease import State
from tasks.stages.provision import provision
from tasks.stages.run import run_workload
from tasks.stages.teardown import teardown
from tasks.stages.upload import upload
from tasks.targets.local import supervise
from tests.chaos.driver import PATIENCE_S, PROMISED_S, fork_and_play, took_s
from tests.tasks.targets.local_runs import IMAGE, alive_under, hold, make_run, spec
from tests.waiting import until

ROOT = Path(__file__).parents[2]
SUITE = """\
suite_name: endless
num_repeats: 10000
checkpoint_config:
  spec:
    a: {dtype: float32, shape: [64, 64], sharding: [x, null]}
mesh_config:
  mesh_axes: [x]
  ici_parallelism: {x: 4}
benchmarks:
  - generator: orbax.checkpoint._src.testing.benchmarks.pytree_checkpoint_benchmark.PyTreeCheckpointBenchmark
    options: {}
"""


def play(output: Path) -> None:
    run_spec = replace(spec(output), suite_text=SUITE, env={})
    run = make_run(run_spec, supervisor=supervise)
    holding = hold(run)
    try:
        run_workload(run, upload(run, provision(run, holding), IMAGE), holding)
    finally:
        teardown(run, holding)


@contextmanager
def saving(output: Path) -> Iterator[int]:
    """A run in a forked process whose workers save by now; gives the pid of its owner."""
    pid = fork_and_play(lambda: play(output))
    try:
        streams = [output / "run-1" / "scratch" / f"a1-w000{worker}" / "stream.jsonl" for worker in (0, 1)]
        deadline = time.monotonic() + PATIENCE_S
        while not all(
            stream.exists() and '"operation":"restore"' in stream.read_text() for stream in streams
        ):
            assert time.monotonic() < deadline, "no worker ever restored"
            time.sleep(0.1)
        yield pid
    finally:
        for left in (pid, *alive_under("run-1-e1")):
            try:
                os.kill(left, signal.SIGKILL)
            except ProcessLookupError:
                continue


def reap() -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "flows.cli.main", "reap"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )


def state() -> State | None:
    lease = DirectoryLedger(ledger_folder()).read("run-1-e1")
    return lease.state if lease else None


@pytest.mark.chaos
def test_kill_9_then_reap_leaves_nothing_within_15_s(tmp_path: Path) -> None:
    with saving(tmp_path) as pid:
        assert len(alive_under("run-1-e1")) >= 4
        os.kill(pid, signal.SIGKILL)
        begin = time.monotonic()
        os.waitpid(pid, 0)
        done = reap()
        assert (done.returncode, alive_under("run-1-e1")) == (0, []), done.stderr
        assert took_s(begin) < PROMISED_S
        assert state() is State.GONE


@pytest.mark.chaos
def test_kill_9_of_everything_but_the_workers_leaves_nothing_even_without_a_reaper(tmp_path: Path) -> None:
    with saving(tmp_path) as pid:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        begin = time.monotonic()
        until(lambda: not alive_under("run-1-e1"), PATIENCE_S)
        assert took_s(begin) < PROMISED_S, "supervisors outlived their owner"
        assert state() is State.LIVE, "nobody has looked yet"
        assert reap().returncode == 0
        assert state() is State.GONE


@pytest.mark.chaos
def test_a_stopped_supervisor_and_worker_go_too(tmp_path: Path) -> None:
    with saving(tmp_path) as pid:
        for process in alive_under("run-1-e1"):
            with suppress(ProcessLookupError):  # one that a worker had started for a moment
                os.kill(process, signal.SIGSTOP)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        begin = time.monotonic()
        done = reap()
        assert (done.returncode, alive_under("run-1-e1")) == (0, []), done.stderr
        assert took_s(begin) < PROMISED_S


@pytest.mark.chaos
def test_an_interrupt_in_the_middle_ends_in_teardown(tmp_path: Path) -> None:
    with saving(tmp_path) as pid:
        os.kill(pid, signal.SIGINT)
        begin = time.monotonic()
        os.waitpid(pid, 0)
        assert took_s(begin) < 2 * PROMISED_S
        assert (state(), alive_under("run-1-e1")) == (State.GONE, [])
        sealed = tmp_path / "run-1" / "results" / "points-a1-w0000.jsonl"
        journal = tmp_path / "run-1" / "scratch" / "a1-w0000" / "journal.jsonl"
        # Ending goes before sealing: where the machine has no time for both, samples stay in the journal.
        assert "told to stop" in sealed.read_text() if sealed.exists() else '"sample"' in journal.read_text()
