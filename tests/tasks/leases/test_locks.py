"""Locks on hardware that was there before: one run at a time, from whatever process or machine."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from runtime.contract.errors import BadInput
from tasks.leases import owner as owners
from tasks.leases.claim import claim
from tasks.leases.directory_ledger import DirectoryLedger
from tasks.leases.holding import Fenced, Holding
from tasks.leases.inventory import Inventories, open_inventories
from tasks.leases.keeping import keep
from tasks.leases.lease import Lease, State, is_lock
from tasks.leases.ledger import Ledger
from tasks.leases.locks import Locked, lock
from tasks.leases.opening import open_ledger
from tasks.leases.reaper import reap
from tests.tasks.leases.rooms import Rooms
from tests.waiting import PATIENCE_S, until

ROOT = Path(__file__).parents[3]
PLACE = ("proj/us-west4-a", "v5e-16")


@pytest.fixture
def first(ledger: DirectoryLedger, inventories: Inventories) -> Holding:
    return claim(ledger, inventories, "first", "first")


@pytest.fixture
def second(ledger: DirectoryLedger, inventories: Inventories) -> Holding:
    return claim(ledger, inventories, "second", "second")


def lock_of(ledger: Ledger) -> Lease:
    (found,) = [lease for lease in ledger.listing().leases if is_lock(lease)]
    return found


def alter(ledger: Ledger, lease_id: str, **changes: object) -> None:
    """Writes a lease anew, behind its holder's back."""
    stored = ledger.read(lease_id)
    assert stored is not None
    ledger.write(replace(stored, **changes))  # type: ignore[arg-type]


def test_the_second_is_refused_and_told_by_whom_and_since_when(first: Holding, second: Holding) -> None:
    lock(first, *PLACE)
    with pytest.raises(Locked) as refusal:
        lock(second, *PLACE)
    told = str(refusal.value)
    assert "v5e-16 in proj/us-west4-a is held by lease first-e1" in told
    assert f"process {os.getpid()} on" in told
    assert ", since 20" in told
    lock(second, "proj/us-west4-a", "another")
    lock(second, "proj/another-zone", "v5e-16")


def test_it_goes_back_with_the_lease_and_may_be_taken_twice_by_it(
    first: Holding, second: Holding, ledger: DirectoryLedger
) -> None:
    lock(first, *PLACE)
    since = lock_of(ledger).renewed_at
    lock(first, *PLACE)
    assert lock_of(ledger).renewed_at == since
    assert first.release("over").lease.state is State.GONE
    assert lock_of(ledger).holders == ()
    lock(second, *PLACE)
    assert lock_of(ledger).holders == ("second-e1",)


def test_one_lease_holds_two_locks_and_gives_both_back(
    first: Holding, second: Holding, ledger: DirectoryLedger
) -> None:
    other = ("proj/us-west4-a", "v5e-32")
    refs = [lock(first, *place) for place in (PLACE, other)]
    assert len({ref.uid for ref in refs}) == 2
    for place in (PLACE, other):
        with pytest.raises(Locked, match="held by lease first-e1"):
            lock(second, *place)
    done = first.release("over")
    assert sorted(ref.name for ref in done.deleted) == ["v5e-16", "v5e-32"]
    assert [one.holders for one in ledger.listing().leases if is_lock(one)] == [(), ()]
    for place in (PLACE, other):
        lock(second, *place)


def test_who_waits_says_for_whom_once_and_gets_it(first: Holding, second: Holding) -> None:
    lock(first, *PLACE)
    said: list[str] = []
    thread = threading.Thread(
        target=lambda: lock(second, *PLACE, wait_s=PATIENCE_S, say=said.append, poll_s=0.02)
    )
    thread.start()
    until(lambda: said)
    first.release("over")
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert len(said) == 1
    assert "held by lease first-e1" in said[0]
    assert second.lease.find("lock", *PLACE) is not None


def test_who_lost_its_lease_stops_waiting(first: Holding, second: Holding, ledger: DirectoryLedger) -> None:
    lock(first, *PLACE)
    alter(ledger, "second-e1", owner=owners.this_process())
    with pytest.raises(Fenced):
        lock(second, *PLACE, wait_s=PATIENCE_S, poll_s=0.02)


def test_a_dead_holder_loses_it_and_one_that_renews_does_not(
    first: Holding, second: Holding, ledger: DirectoryLedger
) -> None:
    lock(first, *PLACE)
    alter(ledger, "first-e1", renewed_at=1000.0, expires_at=1180.0)
    with pytest.raises(Locked):
        lock(second, *PLACE, wait_s=0.3, watch_s=10.0, poll_s=0.02)
    with first.renewing(every_s=0.02), pytest.raises(Locked):
        # Its clock is years behind, but it renews.
        lock(second, *PLACE, wait_s=1.0, watch_s=0.3, poll_s=0.02, now=lambda: 9e9)
    alter(ledger, "first-e1", renewed_at=1000.0, expires_at=1180.0)
    lock(second, *PLACE, wait_s=PATIENCE_S, watch_s=0.2, poll_s=0.02)
    assert lock_of(ledger).holders == ("second-e1",)
    first.release("it wakes up")
    assert lock_of(ledger).holders == ("second-e1",), "what another has by now is left to it"


def test_one_whose_lease_is_gone_or_unknown_loses_it_at_once(
    first: Holding, second: Holding, ledger: DirectoryLedger
) -> None:
    lock(first, *PLACE)
    alter(ledger, lock_of(ledger).lease_id, holders=("never-e1",))
    lock(second, *PLACE)
    alter(ledger, "second-e1", state=State.GONE, owner=None)
    lock(first, *PLACE)
    assert lock_of(ledger).holders == ("first-e1",)


def test_what_leaked_keeps_its_lock(first: Holding, second: Holding, ledger: DirectoryLedger) -> None:
    lock(first, *PLACE)
    alter(
        ledger, "first-e1", state=State.LEAKED, owner=None, note="n0 is there", renewed_at=0.0, expires_at=1.0
    )
    with pytest.raises(Locked, match=r"that lease is leaked \(n0 is there\)"):
        lock(second, *PLACE, wait_s=0.3, watch_s=0.0, poll_s=0.02)


def test_the_reaper_takes_it_from_the_dead_and_leaves_the_living(
    first: Holding, second: Holding, ledger: DirectoryLedger, inventories: Inventories
) -> None:
    lock(first, *PLACE)
    assert first.lease.owner is not None
    assert [found.did for found in reap(ledger, inventories, confirm_s=0.0)] == ["kept", "kept"]
    assert lock_of(ledger).holders == ("first-e1",)
    alter(ledger, "first-e1", owner=replace(first.lease.owner, started_at=0.5))
    assert [found.did for found in reap(ledger, inventories, confirm_s=0.0)] == ["released", "kept"]
    assert lock_of(ledger).holders == ()


def test_a_lock_taken_by_one_who_died_before_recording_it_goes_back(
    first: Holding, ledger: DirectoryLedger, inventories: Inventories
) -> None:
    lock(first, *PLACE)
    alter(ledger, "first-e1", resources=tuple(replace(ref, uid=None) for ref in first.lease.resources))
    assert first.release("over").lease.state is State.GONE
    assert lock_of(ledger).holders == ()


def test_what_is_kept_lets_its_lock_go(first: Holding, ledger: DirectoryLedger, tmp_path: Path) -> None:
    rooms = Rooms(tmp_path / "building", ledger.id)
    first.inventories = {**first.inventories, "room": rooms}
    lock(first, *PLACE)
    rooms.rent(first, "blue")
    first.live()
    assert [ref.kind for ref in keep(first, ["room"], 9e9)] == ["room"]
    assert lock_of(ledger).holders == ()


def test_locks_of_like_names_are_not_one(first: Holding, second: Holding) -> None:
    lock(first, "a/b", "c")
    lock(second, "a-b", "c")
    lock(second, "a", "b/c")
    with pytest.raises(BadInput):
        lock(first, "", "c")


def test_two_processes_never_both_have_it(gcs_bucket: str, tmp_path: Path) -> None:
    """Each takes the lock, makes a folder that must not be there, removes it, gives the lock back."""
    uri = f"{gcs_bucket}/ledger"
    code = """if True:
        import sys
        from pathlib import Path
        from tasks.leases.claim import claim
        from tasks.leases.inventory import open_inventories
        from tasks.leases.locks import lock
        from tasks.leases.opening import open_ledger
        uri, name, scratch = sys.argv[1:]
        ledger = open_ledger(uri)
        for n in range(4):
            holding = claim(ledger, open_inventories(ledger, Path(scratch) / "none"), name, f"{name}-{n}")
            lock(holding, "zone", "tpu", wait_s=90.0, poll_s=0.01)
            (Path(scratch) / "inside").mkdir()
            (Path(scratch) / "inside").rmdir()
            holding.release("over")
            print(n, flush=True)
    """
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code, uri, name, str(tmp_path)],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("a", "b")
    ]
    assert [process.communicate(timeout=PATIENCE_S)[0].split() for process in running] == [
        ["0", "1", "2", "3"]
    ] * 2
    ledger = open_ledger(uri)
    assert lock_of(ledger).holders == ()
    assert open_inventories(ledger, tmp_path)["lock"].list(None) == []
