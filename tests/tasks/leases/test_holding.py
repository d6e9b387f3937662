"""Holding: write first, fence, record; renewals; and what happens to a run that lost its lease."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from runtime.contract.errors import Leaked
from tasks.leases import directories, steps
from tasks.leases import owner as owners
from tasks.leases.claim import claim, latest
from tasks.leases.directory_ledger import DirectoryLedger
from tasks.leases.holding import Fenced, Holding, Taken
from tasks.leases.inventory import Inventories
from tasks.leases.lease import Lease, State
from tasks.leases.ledger import Conflict, Unwritable
from tasks.leases.machine import this_machine
from tasks.leases.patience import Patience
from tasks.leases.processes import reference
from tasks.leases.release import release
from tests.waiting import PATIENCE_S, until

QUICK = Patience(grace_s=0.3, deadline_s=PATIENCE_S, look_every_s=0.02)


@pytest.fixture
def holding(ledger: DirectoryLedger, inventories: Inventories, clock: Callable[[], float]) -> Holding:
    return claim(ledger, inventories, "run", "run", now=clock)


def stored(ledger: DirectoryLedger) -> Lease:
    lease = ledger.read("run-e1")
    assert lease is not None
    return lease


def take_away(ledger: DirectoryLedger) -> None:
    """Releases the lease in another's name; a renewal may come in between."""
    while True:
        with contextlib.suppress(Conflict):
            ledger.write(steps.releasing(stored(ledger), owners.this_process(), 0.0, "expired"))
            return


def test_the_intent_is_in_the_ledger_before_anything_is_made(
    holding: Holding, ledger: DirectoryLedger
) -> None:
    seen = []

    def make() -> str:
        seen.append(stored(ledger))
        return "uid-1"

    ref = holding.create("node", "zone", "n0", make, dead_man="8 h")
    [before] = seen
    assert (before.state, before.unconfirmed) == (State.CREATING, True)
    assert stored(ledger).resources == (ref,) == (replace(before.resources[0], uid="uid-1"),)


def test_an_intent_stays_when_making_fails(holding: Holding, ledger: DirectoryLedger) -> None:
    def make() -> str:
        raise RuntimeError("reply lost")

    with pytest.raises(RuntimeError):
        holding.create("node", "zone", "n0", make)
    assert stored(ledger).unconfirmed, "it may exist: whoever releases must look for it"


def test_nothing_is_made_when_the_ledger_cannot_be_written(
    ledger: DirectoryLedger, holding: Holding, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(lease: Lease) -> Lease:
        raise Unwritable("disk full")

    monkeypatch.setattr(ledger, "write", full)
    made: list[str] = []
    with pytest.raises(Unwritable):
        holding.create("node", "zone", "n0", lambda: made.append("n0") or "uid")  # type: ignore[func-returns-value]
    assert made == []


def test_a_run_that_lost_its_lease_makes_nothing_more(holding: Holding, ledger: DirectoryLedger) -> None:
    take_away(ledger)
    made: list[str] = []
    with pytest.raises(Fenced, match=r"it is releasing by .* \(expired\)"):
        holding.create("node", "zone", "n0", lambda: made.append("n0") or "uid")  # type: ignore[func-returns-value]
    assert made == []
    for step in (holding.renew, holding.check, holding.live, lambda: holding.release("done")):
        with pytest.raises(Fenced):
            step()


def test_what_was_made_while_the_lease_was_lost_is_deleted_again(
    holding: Holding, ledger: DirectoryLedger, spawn
) -> None:
    started = []

    def make() -> str:
        take_away(ledger)
        started.append(spawn(holding.labels))
        return str(reference(started[0].pid, 0.0).uid)

    with pytest.raises(Fenced):
        holding.create("process", this_machine(), "p0", make)
    assert started[0].wait(PATIENCE_S) < 0


def test_what_was_made_while_another_took_over_is_left_to_the_other(
    holding: Holding, ledger: DirectoryLedger, inventories: Inventories, spawn
) -> None:
    theirs = spawn(holding.labels)

    def make() -> str:
        claim(ledger, inventories, "run", "run")
        return str(reference(theirs.pid, 0.0).uid)

    with pytest.raises(Fenced):
        holding.create("process", this_machine(), "p0", make)
    assert theirs.poll() is None


def test_a_sharer_who_writes_the_lease_does_not_fence_its_owner(
    holding: Holding, ledger: DirectoryLedger
) -> None:
    ledger.write(steps.join(stored(ledger), "other-e1"))
    holding.renew()
    assert holding.lease.holders == ("other-e1",)


def test_renewals_move_the_expiry(holding: Holding, ledger: DirectoryLedger, clock) -> None:
    clock.at += 30
    holding.renew()
    assert (stored(ledger).renewed_at, stored(ledger).expires_at) == (clock.at, clock.at + 180.0)


def test_the_thread_renews_tells_the_workers_and_ends(
    holding: Holding, ledger: DirectoryLedger, clock
) -> None:
    told = threading.Event()
    clock.at += 30
    with holding.renewing(0.01, also=told.set):
        assert told.wait(PATIENCE_S)
    assert stored(ledger).renewed_at == clock.at
    assert not [thread for thread in threading.enumerate() if thread.name == "renew run-e1"]


def test_leaving_the_renewing_block_tells_that_the_lease_was_lost(
    holding: Holding, ledger: DirectoryLedger
) -> None:
    with pytest.raises(Fenced), holding.renewing(0.01):
        take_away(ledger)
        until(lambda: holding.lost)


def test_a_release_of_our_own_within_the_block_is_no_loss(holding: Holding) -> None:
    ticked = threading.Event()
    with holding.renewing(0.01, also=ticked.set):
        assert ticked.wait(PATIENCE_S)
        holding.release("done", QUICK)
        until(lambda: all(thread.name != "renew run-e1" for thread in threading.enumerate()))
    assert holding.lost is None


def test_an_error_in_the_block_is_not_hidden_by_the_loss(holding: Holding, ledger: DirectoryLedger) -> None:
    def lose() -> None:
        take_away(ledger)
        until(lambda: holding.lost)
        raise RuntimeError("the real one")

    with pytest.raises(RuntimeError, match="the real one"), holding.renewing(0.01):
        lose()


def test_release_with_a_ledger_that_can_only_be_read_deletes_all_the_same(
    holding: Holding, ledger: DirectoryLedger, spawn, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = spawn(holding.labels)

    def full(lease: Lease) -> Lease:
        raise Unwritable("disk full")

    monkeypatch.setattr(ledger, "write", full)
    done = holding.release("done", QUICK)
    assert process.wait(PATIENCE_S) < 0
    assert (done.problems, done.left) == (("disk full",), ())


def test_a_new_run_gets_epoch_one_and_a_retry_after_gone_the_next(
    ledger: DirectoryLedger, inventories: Inventories
) -> None:
    first = claim(ledger, inventories, "run", "run")
    assert first.lease.lease_id == "run-e1"
    assert first.release("done").lease.state is State.GONE
    assert claim(ledger, inventories, "run", "run").lease.lease_id == "run-e2"
    last = latest(ledger, "run")
    assert last is not None
    assert last.epoch == 2


def test_a_retry_in_the_same_process_takes_over_and_fences_the_former(
    ledger: DirectoryLedger, inventories: Inventories
) -> None:
    former = claim(ledger, inventories, "run", "run")
    now = claim(ledger, inventories, "run", "run")
    assert now.lease.lease_id == former.lease.lease_id
    with pytest.raises(Fenced):
        former.renew()


def alter_owner(ledger: DirectoryLedger, **changes: object) -> None:
    lease = stored(ledger)
    assert lease.owner is not None
    ledger.write(replace(lease, owner=replace(lease.owner, **changes)))


def test_a_lease_in_living_hands_is_refused_and_says_whose(
    ledger: DirectoryLedger, inventories: Inventories, spawn
) -> None:
    claim(ledger, inventories, "run", "run")
    other = spawn({})
    start = owners.started_at(other.pid)
    alter_owner(ledger, pid=other.pid, started_at=start, user="ann")
    with pytest.raises(Taken, match=rf"ann's process {other.pid} on .* renewed \d+ s ago"):
        claim(ledger, inventories, "run", "run")
    other.kill()
    other.wait()
    assert claim(ledger, inventories, "run", "run").lease.epoch == 1


def test_a_lease_held_on_another_machine_is_taken_only_once_expired(
    ledger: DirectoryLedger, inventories: Inventories, holding: Holding, clock
) -> None:
    alter_owner(ledger, host="elsewhere")
    with pytest.raises(Taken, match="another machine"):
        claim(ledger, inventories, "run", "run", now=clock)
    clock.at += 181
    said: list[str] = []
    watched: list[float] = []
    taken = claim(
        ledger, inventories, "run", "run", now=clock, confirm_s=9.0, sleep=watched.append, say=said.append
    )
    assert (taken.lease.epoch, watched) == (1, [9.0])
    assert "watching it for 9 s" in said[0]


def test_a_clock_that_is_ahead_takes_no_lease_that_is_renewed(
    ledger: DirectoryLedger, inventories: Inventories, holding: Holding, clock
) -> None:
    alter_owner(ledger, host="elsewhere")

    def renew(seconds: float) -> None:
        ledger.write(steps.renew(stored(ledger), clock.at, clock.at + 180.0))

    with pytest.raises(Taken, match="renewed just now"):
        claim(ledger, inventories, "run", "run", now=lambda: clock.at + 300.0, sleep=renew)
    take_away(ledger)
    alter_owner(ledger, host="elsewhere")
    with pytest.raises(Taken, match="renewed just now"):
        claim(ledger, inventories, "run", "run", now=lambda: clock.at + 300.0, sleep=renew)


def test_a_half_released_lease_is_released_before_the_next_epoch(
    ledger: DirectoryLedger, inventories: Inventories, holding: Holding, spawn, clock
) -> None:
    process = spawn(holding.labels)
    take_away(ledger)
    again = claim(ledger, inventories, "run", "run", now=clock, patience=QUICK)
    assert process.wait(PATIENCE_S) < 0
    assert again.lease.lease_id == "run-e2"


def test_no_next_epoch_over_something_that_will_not_go(
    ledger: DirectoryLedger, inventories: Inventories, holding: Holding, clock
) -> None:
    holding.create("quantum", "zone", "q0", lambda: "uid")
    take_away(ledger)
    with pytest.raises(Leaked, match="no inventory of quantum"):
        claim(ledger, inventories, "run", "run", now=clock, patience=replace(QUICK, deadline_s=0.1))


def test_what_can_be_seen_goes_even_when_something_else_cannot(holding: Holding, spawn) -> None:
    process = spawn(holding.labels)
    holding.create("process", "another-host", "p1", lambda: "1@1.00")
    done = holding.release("done", replace(QUICK, deadline_s=1.0))
    assert done.lease.state is State.LEAKED
    assert process.wait(PATIENCE_S) < 0


def test_of_two_that_read_the_same_generation_one_releases(
    ledger: DirectoryLedger, inventories: Inventories, holding: Holding
) -> None:
    lease = stored(ledger)
    release(ledger, lease, inventories, owners.this_process(), "first", patience=QUICK)
    with pytest.raises(Conflict):
        release(ledger, lease, inventories, owners.this_process(), "second", patience=QUICK)


def test_adopted_folders_stay(
    ledger: DirectoryLedger, inventories: Inventories, holding: Holding, tmp_path: Path
) -> None:
    mine, theirs = tmp_path / "scratch" / "mine", tmp_path / "scratch" / "theirs"
    for folder in (mine, theirs):
        directories.make(folder, holding.labels)
        (folder / "data").write_text("x")
    scope = reference(1, 0.0).scope
    holding.create("directory", scope, str(mine), lambda: str(mine))
    holding.adopt("directory", scope, str(theirs), str(theirs))
    assert holding.release("done", QUICK).lease.state is State.GONE
    assert not mine.exists()
    assert (theirs / "data").exists()
