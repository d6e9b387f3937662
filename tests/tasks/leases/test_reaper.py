"""The reaper: what it takes, what it leaves alone, and that it says why."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from runtime.contract.errors import ExitCode
from runtime.contract.process import started_at
from tasks.leases import directories, steps
from tasks.leases import owner as owners
from tasks.leases.claim import claim
from tasks.leases.directory_ledger import DirectoryLedger
from tasks.leases.finding import Finding
from tasks.leases.holding import Fenced, Holding
from tasks.leases.inventory import Inventories, Pace, open_inventories
from tasks.leases.lease import State
from tasks.leases.patience import Patience
from tasks.leases.processes import reference
from tasks.leases.reaper import exit_code, reap
from tasks.leases.resource import ResourceRef
from tests.waiting import PATIENCE_S

QUICK = Patience(grace_s=0.5, deadline_s=PATIENCE_S, look_every_s=0.02)
HERE = owners.this_process()


@pytest.fixture
def holding(ledger: DirectoryLedger, inventories: Inventories) -> Holding:
    return claim(ledger, inventories, "run", "run")


@pytest.fixture
def sweep_up(ledger: DirectoryLedger, inventories: Inventories) -> Callable[..., list[Finding]]:
    def call(**more: object) -> list[Finding]:
        return reap(ledger, inventories, **{"patience": QUICK, "confirm_s": 0.0, **more})  # type: ignore[arg-type]

    return call


def state(ledger: DirectoryLedger) -> State:
    lease = ledger.read("run-e1")
    assert lease is not None
    return lease.state


def kill_owner(ledger: DirectoryLedger) -> None:
    """Makes the ledger name an owner that is no longer there: this pid, started at another time."""
    lease = ledger.read("run-e1")
    assert lease is not None
    assert lease.owner is not None
    ledger.write(replace(lease, owner=replace(lease.owner, started_at=lease.owner.started_at - 1.0)))


def test_a_dead_owner_s_processes_go_with_their_setsid_children_and_nothing_else(
    holding: Holding, ledger: DirectoryLedger, sweep_up, spawn, tmp_path: Path
) -> None:
    code = """if True:
        import subprocess, sys, time, signal
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
        print(child.pid, flush=True)
        time.sleep(600)
    """
    ours = spawn(holding.labels, code, "-m", "runtime.supervise")
    other_ledger = spawn({**holding.labels, "SLICEBENCH_LEDGER_ID": DirectoryLedger(tmp_path / "other").id})
    similar = spawn({**holding.labels, "SLICEBENCH_LEASE": "run-e10"}, "print(flush=True); input()", "run-e1")
    ledger.write(replace(holding.lease, lease_id="run-e10", epoch=10, generation=0))
    unlabelled = spawn({}, "print(flush=True); import time; time.sleep(600)", "-m", "runtime.supervise")
    kill_owner(ledger)
    findings = sweep_up()
    assert [(found.did, found.lease_id) for found in findings if found.did != "kept"] == [
        ("released", "run-e1")
    ]
    assert state(ledger) is State.GONE
    assert ours.wait(PATIENCE_S) < 0
    assert started_at(int(ours.first_line)) is None
    assert [process.poll() for process in (other_ledger, unlabelled)] == [None, None]
    similar.kill()


def test_a_stopped_process_goes_too(holding: Holding, ledger: DirectoryLedger, sweep_up, spawn) -> None:
    process = spawn(holding.labels)
    process.send_signal(19)
    kill_owner(ledger)
    assert [found.did for found in sweep_up()] == ["released"]
    assert process.wait(PATIENCE_S) < 0


def test_supervisors_are_asked_before_they_are_killed(
    holding: Holding, ledger: DirectoryLedger, sweep_up, spawn
) -> None:
    code = """if True:
        import signal, subprocess, sys, time
        child = subprocess.Popen([sys.executable, "-c", "print(flush=True); input()"], stdin=-1, stdout=-1)
        child.stdout.readline()
        def end(*_):
            child.kill()
            sys.exit(7 if child.wait() == -9 else 8)
        signal.signal(signal.SIGTERM, end)
        print(flush=True)
        while True: time.sleep(1)
    """
    supervisor = spawn(holding.labels, code)
    kill_owner(ledger)
    assert [found.did for found in sweep_up(patience=replace(QUICK, grace_s=PATIENCE_S / 2))] == ["released"]
    assert supervisor.wait(PATIENCE_S) == 7, "its child was alive until the supervisor itself ended it"


def test_a_child_that_emptied_its_environment_goes_too(holding: Holding, ledger, sweep_up, spawn) -> None:
    code = """if True:
        import subprocess, sys, time, signal
        code = "import signal, time; signal.signal(15, 1); print(flush=True); time.sleep(99)"
        child = subprocess.Popen([sys.executable, "-c", code], env={}, start_new_session=True, stdout=-1)
        child.stdout.readline()
        print(child.pid, flush=True)
        time.sleep(99)
    """
    parent = spawn(holding.labels, code)
    kill_owner(ledger)
    assert [found.did for found in sweep_up()] == ["released"]
    assert parent.wait(PATIENCE_S) < 0
    assert started_at(int(parent.first_line)) is None


def test_folders_go_after_the_processes_that_write_there(
    holding: Holding, ledger, inventories: Inventories, sweep_up, spawn, tmp_path: Path
) -> None:
    folder = tmp_path / "scratch" / "run"
    scope = reference(1, 0.0).scope
    holding.create("directory", scope, str(folder), lambda: directories.make(folder, holding.labels))
    code = """if True:
        import pathlib, signal, sys, time
        def end(*_):
            time.sleep(0.3)
            sys.exit(0 if pathlib.Path(sys.argv[1]).is_dir() else 9)
        signal.signal(signal.SIGTERM, end)
        print(flush=True)
        while True: time.sleep(1)
    """
    writer = spawn(holding.labels, code, str(folder))
    kill_owner(ledger)
    assert [found.did for found in sweep_up(patience=replace(QUICK, grace_s=PATIENCE_S / 2))] == ["released"]
    assert writer.wait(PATIENCE_S) == 0
    assert not folder.exists()


def test_dry_run_says_what_and_touches_nothing(
    holding: Holding, ledger: DirectoryLedger, sweep_up, spawn
) -> None:
    process = spawn(holding.labels)
    kill_owner(ledger)
    before = ledger.listing()
    assert [found.did for found in sweep_up(dry_run=True)] == ["would release"]
    assert ledger.listing() == before
    assert process.poll() is None


def test_a_living_owner_is_left_alone(holding: Holding, sweep_up, spawn) -> None:
    process = spawn(holding.labels)
    [found] = sweep_up(ended=lambda lease: True)
    assert found.did == "kept"
    assert process.poll() is None


def test_a_lease_renewed_while_watched_is_left_alone_though_its_clock_is_hours_behind(
    holding: Holding, ledger: DirectoryLedger, sweep_up
) -> None:
    later = time.time() + 7200
    renewed: list[float] = []

    def renew(seconds: float) -> None:
        renewed.append(seconds)
        holding.renew()

    [found] = sweep_up(now=lambda: later, confirm_s=25.0, sleep=renew)
    assert (found.did, renewed) == ("kept", [25.0])
    assert state(ledger) is State.PLANNED
    [found] = sweep_up(now=lambda: later)
    assert found.did == "released", "and without a renewal it goes"
    with pytest.raises(Fenced):
        holding.renew()


def test_an_owner_on_another_machine_of_our_name_is_not_called_dead(
    holding: Holding, ledger: DirectoryLedger, sweep_up
) -> None:
    """Two machines called "vm" or "localhost" on one ledger: their boots differ, and both live."""
    assert holding.lease.owner is not None
    ledger.write(replace(holding.lease, owner=replace(holding.lease.owner, boot_id="another")))
    [found] = sweep_up()
    assert (found.did, state(ledger)) == ("kept", State.PLANNED)
    assert "is elsewhere" in found.why
    later = time.time() + 100.0

    def renew(seconds: float) -> None:
        stored = ledger.read("run-e1")
        assert stored is not None
        ledger.write(steps.renew(stored, later, later + 180.0))

    [found] = sweep_up(now=lambda: later, sleep=renew)
    assert found.did == "kept", "it renews before our eyes"
    [found] = sweep_up(now=lambda: later + 100.0)
    assert (found.did, state(ledger)) == ("released", State.GONE), "before it expires: it fell silent"
    assert "its machine was restarted" in found.why


def test_labels_without_a_lease_go(ledger: DirectoryLedger, holding: Holding, sweep_up, spawn) -> None:
    unknown = spawn({**holding.labels, "SLICEBENCH_LEASE": "never-e1"})
    holding.release("done", QUICK)
    late = spawn(holding.labels)
    findings = {found.lease_id: found for found in sweep_up()}
    assert {lease_id: found.did for lease_id, found in findings.items()} == {
        "never-e1": "released",
        "run-e1": "released",
    }
    assert "does not know" in findings["never-e1"].why
    assert unknown.wait(PATIENCE_S) < 0
    assert late.wait(PATIENCE_S) < 0


def test_a_process_whose_lease_cannot_be_read_stays(
    holding: Holding, ledger: DirectoryLedger, sweep_up, spawn
) -> None:
    process = spawn(holding.labels)
    (Path(ledger.uri) / "run-e1.json").write_text("{")
    findings = sweep_up()
    assert [found.did for found in findings] == ["unreadable"]
    assert exit_code(findings) is ExitCode.INFRASTRUCTURE
    assert process.poll() is None


def test_what_cannot_be_seen_from_here_is_left_to_who_can(
    holding: Holding, ledger: DirectoryLedger, sweep_up
) -> None:
    holding.create("process", "another-host", "supervisor", lambda: "1@1.00")
    kill_owner(ledger)
    [found] = sweep_up()
    assert (found.did, state(ledger)) == ("not reachable", State.CREATING)
    assert "process in another-host" in found.why


def test_what_will_not_go_is_leaked_and_told_again_each_time(ledger: DirectoryLedger, tmp_path: Path) -> None:
    class Stubborn:
        kind, pace, settle_s, after, asked = "rock", Pace(), 0.0, frozenset(), 0
        ref = ResourceRef("rock", "z", "r0", "u0")

        def sees(self, scope: str) -> bool:
            return True

        def list(self, lease_id: str | None) -> list[object]:
            return []

        def get(self, ref: ResourceRef) -> ResourceRef | None:
            return ref if self.asked < 100 else None

        def delete(self, ref: ResourceRef, *, force: bool) -> None:
            self.asked += 1

    rock = Stubborn()
    all_kinds = {**open_inventories(ledger, tmp_path), "rock": rock}
    holding = claim(ledger, all_kinds, "run", "run")  # type: ignore[arg-type]
    holding.create("rock", "z", "r0", lambda: "u0")
    short = Patience(grace_s=0.0, deadline_s=0.1, look_every_s=0.02)
    done = holding.release("done", short)
    assert (done.lease.state, done.exit_code) == (State.LEAKED, ExitCode.LEAKED)
    assert "rock r0 is still there" in done.lease.note
    findings = reap(ledger, all_kinds, patience=short)  # type: ignore[arg-type]
    assert ([found.did for found in findings], exit_code(findings)) == (["leaked"], ExitCode.LEAKED)
    rock.asked = 1000
    findings = reap(ledger, all_kinds, patience=QUICK)  # type: ignore[arg-type]
    assert ([found.did for found in findings], state(ledger)) == (["released"], State.GONE)


def test_two_reapers_at_once(holding: Holding, ledger: DirectoryLedger, sweep_up, spawn) -> None:
    processes = [spawn(holding.labels) for _ in range(3)]
    kill_owner(ledger)
    results: list[list[Finding]] = []
    threads = [threading.Thread(target=lambda: results.append(sweep_up())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    did = sorted(found.did for findings in results for found in findings)
    assert did.count("released") == 1, did
    assert set(did) <= {"released", "elsewhere", "kept"}
    assert state(ledger) is State.GONE
    assert all(process.wait(PATIENCE_S) < 0 for process in processes)


def test_dead_holders_are_struck_off_and_the_last_one_out_ends_it(
    ledger: DirectoryLedger, holding: Holding, sweep_up
) -> None:
    cluster = steps.plan("cluster", "run", 1, None, 0.0, None)
    ledger.write(steps.join(steps.join(cluster, "run-e1"), "never-e1"))
    assert {found.lease_id: found.did for found in sweep_up()}["cluster-e1"] == "kept"
    shared = ledger.read("cluster-e1")
    assert shared is not None
    assert shared.holders == ("run-e1",)
    holding.release("done", QUICK)
    assert [(found.lease_id, found.did) for found in sweep_up()] == [("cluster-e1", "released")]
