"""Hardware that stays after its run: until when, for whom, and how it goes before its time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from runtime.contract.errors import BadInput
from tasks.leases import owner as owners
from tasks.leases import steps
from tasks.leases.claim import claim
from tasks.leases.directory_ledger import DirectoryLedger
from tasks.leases.giving_up import give_up
from tasks.leases.holding import Fenced, Holding
from tasks.leases.inventory import Inventories
from tasks.leases.keeping import claim_kept, in_dollars, keep
from tasks.leases.lease import Lease, State
from tasks.leases.patience import Patience
from tasks.leases.reaper import reap
from tests.tasks.leases.rooms import Rooms
from tests.waiting import PATIENCE_S

QUICK = Patience(grace_s=0.2, deadline_s=PATIENCE_S, look_every_s=0.02)
SHAPE = {"kind": "rooms", "workers": "2"}


@pytest.fixture
def rooms(ledger: DirectoryLedger, tmp_path: Path) -> Rooms:
    return Rooms(tmp_path / "building", ledger.id)


@pytest.fixture
def everything(inventories: Inventories, rooms: Rooms) -> Inventories:
    return {**inventories, "room": rooms}


@pytest.fixture
def kept(ledger: DirectoryLedger, everything: Inventories, rooms: Rooms, clock, spawn) -> Lease:
    """A lease kept until 4000 s from now, after a run that had a room and a process."""
    holding = claim(ledger, everything, "first", "first", now=clock)
    holding.describe(SHAPE, 4.8)
    rooms.rent(holding, "blue")
    process = spawn(holding.labels)
    holding.live()
    assert [ref.name for ref in keep(holding, ["room"], clock() + 4000.0, QUICK)] == ["blue"]
    assert process.wait(PATIENCE_S) < 0, "what is not worth keeping goes"
    return stored(ledger, "first-e1")


def stored(ledger: DirectoryLedger, lease_id: str) -> Lease:
    lease = ledger.read(lease_id)
    assert lease is not None
    return lease


def again(ledger, everything, clock, shape: Mapping[str, str] = SHAPE, run_id: str = "second") -> Holding:
    return claim_kept(ledger, everything, "first", run_id, shape, folder=f"/runs/{run_id}", now=clock)


def test_what_is_kept_needs_nobody_and_ends_by_itself(
    kept: Lease, ledger: DirectoryLedger, everything: Inventories, rooms: Rooms, clock
) -> None:
    assert (kept.state, kept.owner, kept.expires_at) == (State.LIVE, None, clock() + 4000.0)
    assert (kept.price_per_hour, kept.shape) == (4.8, SHAPE)
    assert [ref.kind for ref in kept.resources] == ["room"]
    clock.at += 3999.0
    assert [found.did for found in reap(ledger, everything, now=clock, confirm_s=0.0)] == ["kept"]
    assert rooms.names() == ["blue"]
    clock.at += 2.0
    assert [found.did for found in reap(ledger, everything, now=clock, confirm_s=0.0)] == ["released"]
    assert rooms.names() == []


def test_renewing_stops_where_keeping_begins(ledger, everything, rooms: Rooms, clock) -> None:
    holding = claim(ledger, everything, "first", "first", now=clock)
    rooms.rent(holding, "blue")
    holding.live()
    renewed = []
    with holding.renewing(every_s=0.01, also=lambda: renewed.append(1)):
        keep(holding, ["room"], clock() + 4000.0, QUICK)
        told = len(renewed)
    assert stored(ledger, "first-e1").expires_at == clock() + 4000.0
    assert len(renewed) <= told + 1


def test_another_run_uses_it_and_gives_it_back(
    kept: Lease, ledger: DirectoryLedger, everything: Inventories, rooms: Rooms, clock
) -> None:
    holding = again(ledger, everything, clock)
    assert (holding.lease.lease_id, holding.lease.run_id, holding.lease.epoch) == ("first-e1", "second", 1)
    assert (holding.lease.folder, holding.lease.held_by) == ("/runs/second", holding.lease.owner)
    with pytest.raises(BadInput, match="held by .* for run second, and not kept"):
        again(ledger, everything, clock, run_id="third")
    assert again(ledger, everything, clock).lease.lease_id == "first-e1", "the same run, tried again"
    with pytest.raises(Fenced):
        holding.check()
    assert again(ledger, everything, clock).release("over", QUICK).lease.state is State.GONE
    assert rooms.names() == []
    with pytest.raises(BadInput, match="it was given back"):
        again(ledger, everything, clock, run_id="third")


def test_it_is_refused_with_every_reason(kept: Lease, ledger: DirectoryLedger, everything, clock) -> None:
    clock.at += 5000.0
    with pytest.raises(BadInput) as refusal:
        again(ledger, everything, clock, {"kind": "rooms", "workers": "4", "spot": "True"})
    told = str(refusal.value)
    assert "its time was over 1000 s ago" in told
    assert "workers is 2 there, and the run wants 4" in told
    assert "spot is none there, and the run wants True" in told
    assert stored(ledger, "first-e1") == kept
    with pytest.raises(BadInput, match="there is no lease third"):
        claim_kept(ledger, everything, "third", "second", SHAPE)


def test_what_is_not_whole_or_will_not_go_is_not_kept(ledger, everything, rooms: Rooms, clock) -> None:
    holding = claim(ledger, everything, "first", "first", now=clock)
    assert keep(holding, ["room"], clock() + 10.0, QUICK) == (), "nothing was made"
    rooms.rent(holding, "blue")
    assert keep(holding, ["room"], clock() + 10.0, QUICK) == (), "it never came to life"
    holding.live()
    cellar = Rooms(rooms.folder.parent / "cellar", rooms.ledger_id, kind="cellar", refuses={"dark": 10_000})
    everything["cellar"] = cellar
    cellar.open("dark", holding.labels)
    assert keep(holding, ["room"], clock() + 10.0, Patience(0.1, 0.5, 0.02)) == ()
    assert holding.lease.owner is not None, "whoever asked still has it, and releases it"


def test_a_lost_lease_is_not_kept_and_nothing_of_it_is_touched(
    ledger, everything, rooms: Rooms, clock, spawn
) -> None:
    holding = claim(ledger, everything, "first", "first", now=clock)
    rooms.rent(holding, "blue")
    holding.live()
    process = spawn(holding.labels)
    ledger.write(replace(holding.lease, owner=owners.this_process()))
    with pytest.raises(Fenced):
        keep(holding, ["room"], clock() + 10.0, QUICK)
    assert process.poll() is None


@pytest.mark.parametrize("name", ["first", "first-e1"])
def test_it_goes_before_its_time_when_somebody_says_so(kept, ledger, everything, rooms, clock, name) -> None:
    assert give_up(ledger, everything, name, dry_run=True, now=clock).did == "would release"
    assert rooms.names() == ["blue"]
    assert give_up(ledger, everything, name, patience=QUICK, now=clock).did == "released"
    assert rooms.names() == []
    assert "gone already" in give_up(ledger, everything, name, now=clock).why


def test_a_lease_in_use_is_not_given_up(ledger, everything, clock) -> None:
    claim(ledger, everything, "first", "first", now=clock)
    with pytest.raises(BadInput, match="lease first is in use: .* lives"):
        give_up(ledger, everything, "first", now=clock)
    with pytest.raises(BadInput, match="there is no lease second"):
        give_up(ledger, everything, "second", now=clock)


def test_a_clock_that_is_ahead_gives_up_no_lease_that_is_renewed(ledger, everything, clock) -> None:
    holding = claim(ledger, everything, "first", "first", now=clock)
    owner = replace(owners.this_process(), host="elsewhere")
    lease = ledger.write(replace(holding.lease, owner=owner))

    def renew(seconds: float) -> None:
        ledger.write(steps.renew(lease, clock.at, clock.at + 180.0))

    with pytest.raises(BadInput, match="lease first is in use: it was renewed while it was watched"):
        give_up(ledger, everything, "first", now=lambda: clock.at + 300.0, sleep=renew)
    silent: list[float] = []
    found = give_up(ledger, everything, "first", now=lambda: clock.at + 300.0, sleep=silent.append)
    assert (found.did, silent) == ("released", [25.0])


def test_a_price_nobody_knows_is_not_called_free() -> None:
    assert (in_dollars(None), in_dollars(4.8)) == ("price not known", "$4.80 an hour")
    assert "$" not in in_dollars(0.0)
