"""Deletions that are refused, things that vanish by themselves, clouds that do not answer: told as what they are."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from runtime.contract.errors import ExitCode, InfrastructureError
from tasks.cloud.google_calls import NotAllowed
from tasks.leases.claim import claim
from tasks.leases.directory_ledger import DirectoryLedger
from tasks.leases.holding import Holding
from tasks.leases.inventory import HERE, Found, Inventories, Pace
from tasks.leases.lease import State
from tasks.leases.patience import Patience
from tasks.leases.reaper import exit_code, reap
from tasks.leases.resource import ResourceRef
from tests.tasks.leases.rooms import Rooms
from tests.waiting import PATIENCE_S, until

QUICK = Patience(grace_s=0.1, deadline_s=1.0, look_every_s=0.02)
PATIENT = Patience(grace_s=0.1, deadline_s=PATIENCE_S, look_every_s=0.02)


@pytest.fixture
def rooms(ledger: DirectoryLedger, tmp_path: Path) -> Rooms:
    return Rooms(tmp_path / "building", ledger.id)


@pytest.fixture
def holding(ledger: DirectoryLedger, inventories: Inventories, rooms: Rooms) -> Holding:
    made = claim(ledger, {**inventories, "room": rooms}, "run", "run")
    rooms.rent(made, "blue")
    return made


def test_a_deletion_that_is_refused_at_first_is_asked_for_again(holding: Holding, rooms: Rooms) -> None:
    rooms.refuses["blue"] = 3
    assert holding.release("over", PATIENT).lease.state is State.GONE
    assert rooms.asked == ["blue"] * 4


def test_what_only_a_grant_would_change_is_not_waited_for_as_what_goes_slowly(
    holding: Holding, rooms: Rooms
) -> None:
    rooms.says, rooms.refuses["blue"] = NotAllowed, 1_000_000
    rooms.pace = replace(rooms.pace, remote=True, goes_within_s=PATIENCE_S)
    patience = replace(QUICK, denied_s=0.1)
    assert holding.release("over", patience).lease.state is State.LEAKED
    rooms.refuses["blue"], rooms.asked[:] = 3, []
    assert holding.release("over", replace(patience, denied_s=PATIENCE_S)).lease.state is State.GONE
    assert rooms.asked == ["blue"] * 4


def test_one_that_is_always_refused_leaks_and_alerts_until_it_is_gone(
    holding: Holding, rooms: Rooms, ledger: DirectoryLedger
) -> None:
    rooms.refuses["blue"] = 1_000_000
    done = holding.release("over", QUICK)
    assert (done.lease.state, done.exit_code) == (State.LEAKED, ExitCode.LEAKED)
    assert "room blue is refused: somebody is in it" in done.lease.note
    for _ in range(2):
        found = reap(ledger, holding.inventories, patience=QUICK, confirm_s=0.0)
        assert ([one.did for one in found], exit_code(found)) == (["leaked"], ExitCode.LEAKED)
    rooms.refuses.clear()
    found = reap(ledger, holding.inventories, patience=PATIENT, confirm_s=0.0)
    assert ([one.did for one in found], exit_code(found)) == (["released"], ExitCode.DONE)


class Silent(Rooms):
    """Rooms of which nobody tells anything; given back, as far as that can be known."""

    silent: bool = True

    def get(self, ref: ResourceRef) -> ResourceRef | None:
        if self.silent:
            raise InfrastructureError("nobody answers the door")
        return super().get(ref)

    def list(self, lease_id: str | None) -> Sequence[Found]:
        return [] if self.silent else super().list(lease_id)


def test_who_does_not_answer_at_all_is_not_waited_for_as_long_and_that_is_told(
    ledger: DirectoryLedger, inventories: Inventories, tmp_path: Path
) -> None:
    pace = Pace(look_every_s=0.01, goes_within_s=3600.0, remote=True, silent_s=0.1)
    rooms = Silent(tmp_path / "building", ledger.id, pace=pace)
    holding = claim(ledger, {**inventories, "room": rooms}, "run", "run")
    rooms.rent(holding, "blue")
    said: list[str] = []
    hurried = replace(QUICK, deadline_s=0.1, tell=said.append, tell_after_s=0.0)
    done = holding.release("over", hurried)
    assert (done.lease.state, [ref.name for ref in done.unseen]) == (State.LEAKED, ["blue"])
    assert any("nobody answers the door: 0 s by now, 0 s at most" in line for line in said), said
    rooms.silent = False
    found = reap(ledger, holding.inventories, patience=PATIENT, confirm_s=0.0)
    assert [one.did for one in found] == ["released"]


def test_what_vanishes_while_we_wait_for_it_is_gone(holding: Holding, rooms: Rooms) -> None:
    rooms.refuses["blue"] = 1_000_000
    ended: list[State] = []
    thread = threading.Thread(target=lambda: ended.append(holding.release("over", PATIENT).lease.state))
    thread.start()
    until(lambda: len(rooms.asked) > 2)
    (rooms.folder / "blue").unlink()
    thread.join(PATIENCE_S)
    assert ended == [State.GONE]


def test_a_cloud_that_does_not_answer_is_not_an_empty_one(
    holding: Holding, rooms: Rooms, ledger: DirectoryLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = holding.lease.owner
    assert owner is not None
    stored = ledger.read("run-e1")
    assert stored is not None
    ledger.write(replace(stored, owner=replace(owner, started_at=0.5)))

    def silent(lease_id: str | None) -> list[object]:
        raise InfrastructureError("the building does not answer")

    monkeypatch.setattr(rooms, "list", silent)
    found = reap(ledger, holding.inventories, patience=QUICK, confirm_s=0.0)
    told = {one.lease_id: one.did for one in found}
    assert told == {"all room": "not listed", "run-e1": "leaked"}
    assert exit_code(found) is ExitCode.LEAKED
    monkeypatch.undo()
    assert exit_code(reap(ledger, holding.inventories, patience=PATIENT, confirm_s=0.0)) is ExitCode.DONE
    assert rooms.names() == []


def test_what_lies_behind_a_door_is_struck_off_before_the_door_goes(
    ledger: DirectoryLedger, inventories: Inventories, tmp_path: Path
) -> None:
    """Whoever is killed once the door is gone leaves nothing in the lease that nobody could look at any more."""
    written: list[list[str]] = []

    class Doors(Rooms):
        def delete(self, ref: ResourceRef, *, force: bool) -> None:
            stored = ledger.read("run-e1")
            assert stored is not None
            written.append([one.name for one in stored.resources])
            super().delete(ref, force=force)

    far = replace(HERE, remote=True)
    rooms = Rooms(tmp_path / "building", ledger.id, pace=far)
    doors = Doors(tmp_path / "doors", ledger.id, kind="door", pace=far, after=frozenset({"room"}))
    holding = claim(ledger, {**inventories, "room": rooms, "door": doors}, "run", "run")
    doors.rent(holding, "front")
    rooms.rent(holding, "blue")
    assert holding.release("over", PATIENT).lease.state is State.GONE
    assert written == [["front"]]
    assert rooms.names() == doors.names() == []
