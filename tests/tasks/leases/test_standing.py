"""Capacity that outlives who works on it: put back as it was kept when that one dies; and what is shared, at last."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tasks.cloud.labels import labels_for
from tasks.leases import steps
from tasks.leases.claim import claim
from tasks.leases.directory_ledger import DirectoryLedger
from tasks.leases.holding import Holding
from tasks.leases.inventory import Inventories
from tasks.leases.judging import judge
from tasks.leases.lease import Lease, Owner, State
from tasks.leases.patience import Patience
from tasks.leases.reaper import reap
from tasks.leases.resource import ResourceRef
from tasks.leases.shares import share
from tests.tasks.leases.rooms import SCOPE, Rooms

NOW = 1_000.0
OWNER = Owner("here", "boot", "pid:[1]", 10, 5.0, "ann", "c0")


def standing(until: float | None = None) -> Lease:
    return steps.stand(steps.plan("cluster", None, 1, OWNER, NOW, NOW + 60), until)


@pytest.mark.parametrize(
    ("lease", "act"),
    [
        (standing(), "put back"),
        (standing(until=NOW + 10), "put back"),
        (standing(until=NOW - 10), "release"),
        (replace(standing(), state=State.RELEASING), "release"),
        (replace(standing(), stands=False), "release"),
    ],
)
def test_what_becomes_of_it_when_its_owner_is_gone(lease: Lease, act: str) -> None:
    assert judge(lease, NOW, alive=False, ended=False).act == act
    assert judge(lease, NOW, alive=True, ended=False).act == "keep"


@pytest.fixture
def rooms(tmp_path: Path, ledger: DirectoryLedger) -> Rooms:
    return Rooms(tmp_path / "building", ledger.id)


@pytest.fixture
def kept(ledger: DirectoryLedger, inventories: Inventories, rooms: Rooms) -> Holding:
    """A lease that keeps one room, in the hands of somebody who works on it."""
    holding = claim(ledger, {**inventories, "room": rooms}, "cluster", None)
    rooms.rent(holding, "first")
    holding.live()
    holding.stand(None)
    return holding


def intend(holding: Holding, name: str) -> None:
    """Writes down that a room is about to be made, as somebody does who is killed then."""
    holding._advance(lambda lease: steps.intend(lease, ResourceRef("room", SCOPE, name)))


def killed(ledger: DirectoryLedger, lease_id: str = "cluster-e1") -> None:
    """Makes the owner a process of this machine that is dead."""
    done = subprocess.Popen(["true"])
    done.wait()
    lease = ledger.read(lease_id)
    assert lease is not None
    owner = lease.held_by
    assert owner is not None
    ledger.write(replace(lease, owner=replace(owner, pid=done.pid, started_at=1.0)))


def sweep_up(holding: Holding) -> dict[str, str]:
    return {one.lease_id: one.did for one in reap(holding.ledger, holding.inventories, confirm_s=0.0)}


def test_what_stands_is_put_back_and_what_is_half_made_goes(
    kept: Holding, rooms: Rooms, ledger: DirectoryLedger
) -> None:
    rooms.rent(kept, "second")
    intend(kept, "third")
    rooms.open("third", kept.labels)
    fourth = kept.create("room", SCOPE, "fourth", lambda: rooms.open("fourth", kept.labels), half=True)
    kept.mark([fourth], half=False)
    kept.mark([kept.create("room", SCOPE, "fifth", lambda: rooms.open("fifth", kept.labels))], half=True)
    kept.create("room", SCOPE, "sixth", lambda: rooms.open("sixth", kept.labels), half=True)
    killed(ledger)
    [would] = reap(ledger, kept.inventories, dry_run=True, confirm_s=0.0)
    assert (would.did, [ref.name for ref in would.resources]) == (
        "would put back",
        ["third", "fifth", "sixth"],
    )
    assert len(rooms.names()) == 6
    assert sweep_up(kept) == {"cluster-e1": "put back"}
    assert rooms.names() == ["first", "fourth", "second"]
    lease = ledger.read("cluster-e1")
    assert lease is not None
    assert (lease.state, lease.owner, lease.expires_at, lease.unconfirmed) == (State.LIVE, None, None, False)
    assert sweep_up(kept) == {"cluster-e1": "kept"}


def test_a_first_try_leaves_nothing(ledger: DirectoryLedger, inventories: Inventories, rooms: Rooms) -> None:
    holding = claim(ledger, {**inventories, "room": rooms}, "cluster", None)
    rooms.rent(holding, "first")
    killed(ledger)
    assert (sweep_up(holding), rooms.names()) == ({"cluster-e1": "released"}, [])


def test_what_cannot_be_put_back_is_told(kept: Holding, rooms: Rooms, ledger: DirectoryLedger) -> None:
    intend(kept, "second")
    rooms.open("second", kept.labels)
    rooms.refuses["second"] = 1000
    killed(ledger)
    found = reap(ledger, kept.inventories, confirm_s=0.0, patience=Patience(deadline_s=0.1))
    assert [(one.did, "somebody is in it" in one.why) for one in found] == [("leaked", True)]
    rooms.refuses.clear()
    killed(ledger)
    assert sweep_up(kept) == {"cluster-e1": "put back"}
    assert rooms.names() == ["first"]


def test_what_the_dead_shared_goes_in_the_same_pass(
    ledger: DirectoryLedger, inventories: Inventories, rooms: Rooms
) -> None:
    """A run makes a cluster, holds it, and dies with it half made: one reaper gives both back."""
    run = claim(ledger, {**inventories, "room": rooms}, "run", "run")
    made = claim(ledger, run.inventories, "cluster", "run")
    share(run, labels_for("cluster-e1", ledger.id))
    rooms.rent(made, "first")
    killed(ledger)
    killed(ledger, "run-e1")
    assert sweep_up(run) == {"run-e1": "released", "cluster-e1": "released"}
    assert rooms.names() == []
