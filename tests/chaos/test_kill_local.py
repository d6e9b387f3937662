"""Pull the plug at any moment of a local run: the reaper leaves nothing of it, and touches nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.contract.errors import ExitCode
from tasks.config.home import ledger_folder, scratch_folder
from tasks.leases.claim import claim
from tasks.leases.directory_ledger import DirectoryLedger
from tasks.leases.finding import Finding
from tasks.leases.inventory import open_inventories
from tasks.leases.lease import State
from tasks.leases.reaper import reap
from tests.chaos.driver import PATIENCE_S, Plug, fork_and_play, play, sample, soon_enough, took_s
from tests.tasks.targets.local_runs import STANDIN, alive_under
from tests.waiting import until


@pytest.fixture
def bystander(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that looks like one of ours, with a label, but of another ledger."""
    process = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(7200)", str(STANDIN), "job-a1-w0000.json"],
        env={**os.environ, "SLICEBENCH_LEASE": "run-0-e1", "SLICEBENCH_LEDGER_ID": "another"},
        start_new_session=True,
    )
    yield process
    process.kill()
    process.wait()


def sweep_up(**more: object) -> list[Finding]:
    ledger = DirectoryLedger(ledger_folder())
    return reap(ledger, open_inventories(ledger, scratch_folder()), **more)  # type: ignore[arg-type]


def moments(tmp_path: Path) -> list[str]:
    """Plays a run undisturbed in this process; returns the moments at which it could have been killed."""
    plug = Plug(None)
    play(tmp_path, "clean", plug)
    return plug.seen


def end(pid: int) -> None:
    """Kills a process that this test forked, if it is still there."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


@pytest.mark.chaos
@pytest.mark.timeout(900)
def test_killed_before_and_after_every_mutating_call(
    tmp_path: Path, bystander: subprocess.Popen[bytes]
) -> None:
    names = moments(tmp_path)
    assert len(names) > 40
    assert sum(name == "before spawn" for name in names) == 2
    survived, took = 0, []

    for at, name in sample(list(enumerate(names)), also="after spawn"):
        run_id = f"run-{at}"
        pid = fork_and_play(lambda run_id=run_id, at=at: play(tmp_path, run_id, Plug(at)))  # type: ignore[misc]
        _, status = os.waitpid(pid, 0)
        assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL, name
        survived += bool(alive_under(f"{run_id}-e1"))
        begin = time.monotonic()
        sweep_up()
        assert alive_under(f"{run_id}-e1") == [], name
        took.append(took_s(begin))
        lease = DirectoryLedger(ledger_folder()).read(f"{run_id}-e1")
        assert lease is None if at == 0 else lease is not None and lease.state is State.GONE, name
        assert not (scratch_folder() / run_id).exists(), name
    assert survived > 0, "the test would prove nothing if workers died with their run"
    assert soon_enough(took), took
    assert bystander.poll() is None
    assert [found.did for found in sweep_up()] == []


@pytest.mark.chaos
@pytest.mark.timeout(900)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_or_terminated_before_and_after_every_mutating_call(
    tmp_path: Path, bystander: subprocess.Popen[bytes], number: signal.Signals
) -> None:
    names, took = moments(tmp_path), []
    for at, name in sample(list(enumerate(names))):
        run_id = f"run-{at}"
        plug = Plug(at, number)
        pid = fork_and_play(lambda run_id=run_id, plug=plug: play(tmp_path, run_id, plug))  # type: ignore[misc]
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        # While things are given back a first signal is only answered.
        giving_back = at >= names.index("before ledger releasing of 3")
        assert code == (ExitCode.DONE if giving_back else ExitCode.INTERRUPTED), name
        assert alive_under(f"{run_id}-e1") == [], f"{name}: it is the run itself that gives everything back"
        begin = time.monotonic()
        sweep_up()
        took.append(took_s(begin))
        lease = DirectoryLedger(ledger_folder()).read(f"{run_id}-e1")
        assert lease is None if at == 0 else lease is not None and lease.state is State.GONE, name
        assert not (scratch_folder() / run_id).exists(), name
    assert soon_enough(took), took
    assert bystander.poll() is None


@pytest.mark.chaos
def test_a_run_that_was_killed_is_resumed_in_the_next_epoch(tmp_path: Path) -> None:
    names = moments(tmp_path)
    at = names.index("after spawn")
    os.waitpid(fork_and_play(lambda: play(tmp_path, "run-1", Plug(at))), 0)
    assert len(alive_under("run-1-e1")) == 1
    sweep_up()
    play(tmp_path, "run-1", Plug(None))
    leases = {lease.lease_id: lease.state for lease in DirectoryLedger(ledger_folder()).listing().leases}
    assert leases == {"clean-e1": State.GONE, "run-1-e1": State.GONE, "run-1-e2": State.GONE}


@pytest.mark.chaos
def test_a_run_resumed_without_a_reaper_clears_away_what_its_dead_self_left(tmp_path: Path) -> None:
    names = moments(tmp_path)
    at = len(names) - 1 - names[::-1].index("after spawn")
    os.waitpid(fork_and_play(lambda: play(tmp_path, "run-1", Plug(at))), 0)
    assert len(alive_under("run-1-e1")) == 2
    play(tmp_path, "run-1", Plug(None))
    assert alive_under("run-1-e1") == []


@pytest.mark.chaos
def test_an_owner_stopped_for_longer_than_its_lease_is_fenced_when_it_wakes(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    pid = fork_and_play(lambda: play(tmp_path, "run-1", Plug(None), workload="hold"))
    request.addfinalizer(lambda: end(pid))
    logs = tmp_path / "run-1" / "logs"
    until(lambda: len(alive_under("run-1-e1")) == 2 and list(logs.glob("*.log")), PATIENCE_S)
    os.kill(pid, signal.SIGSTOP)
    assert [found.did for found in sweep_up(confirm_s=0.0)] == ["kept"], "not yet"
    [found] = sweep_up(now=lambda: time.time() + 300.0, confirm_s=0.5)
    assert (found.did, "expired" in found.why) == ("released", True)
    assert alive_under("run-1-e1") == []
    os.kill(pid, signal.SIGCONT)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == ExitCode.INFRASTRUCTURE
    assert alive_under("run-1-e1") == [], "it made nothing more"
    lease = DirectoryLedger(ledger_folder()).read("run-1-e1")
    assert lease is not None
    assert lease.state is State.GONE


@pytest.mark.chaos
def test_two_reapers_and_a_resumed_run_at_once(tmp_path: Path) -> None:
    names = moments(tmp_path)
    at = len(names) - 1 - names[::-1].index("after spawn")
    os.waitpid(fork_and_play(lambda: play(tmp_path, "run-1", Plug(at))), 0)
    pids = [fork_and_play(lambda: sweep_up() and None) for _ in range(2)]
    pids.append(fork_and_play(lambda: play(tmp_path, "run-1", Plug(None))))
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    assert codes[:2] == [0, 0]
    assert codes[2] in (0, ExitCode.INFRASTRUCTURE), "it won, or was told that another is at it"
    ledger = DirectoryLedger(ledger_folder())
    assert {lease.state for lease in ledger.listing().leases} == {State.GONE}
    assert [alive_under(lease.lease_id) for lease in ledger.listing().leases] == [[]] * len(
        ledger.listing().leases
    )
    holding = claim(ledger, open_inventories(ledger, scratch_folder()), "run-1", "run-1")
    assert holding.release("done").lease.state is State.GONE
