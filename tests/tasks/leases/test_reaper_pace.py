"""What will not go holds up nothing else: the reaper gives back the rest at once, and orphans as well."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tasks.leases import owner as owners
from tasks.leases import reaper, steps
from tasks.leases.directory_ledger import DirectoryLedger
from tasks.leases.finding import Finding
from tasks.leases.inventory import Inventories, Pace
from tasks.leases.lease import Lease, State
from tasks.leases.patience import Patience
from tasks.leases.reaper import reap
from tasks.leases.resource import ResourceRef
from tasks.leases.together import together
from tests.tasks.leases.rooms import SCOPE, Rooms
from tests.waiting import PATIENCE_S, until

SLOW = Pace(look_every_s=0.02, goes_within_s=900.0, remote=True)
NEVER = 1_000_000
DEAD = replace(owners.this_process(), pid=4711, started_at=0.5)


@pytest.fixture
def rooms(ledger: DirectoryLedger, tmp_path: Path) -> Rooms:
    return Rooms(tmp_path / "building", ledger.id, pace=SLOW)


def rented(ledger: DirectoryLedger, rooms: Rooms, name: str) -> Lease:
    """Leaves a room under a lease whose owner is dead."""
    uid = rooms.open(name, {"SLICEBENCH_LEASE": f"{name}-e1", "SLICEBENCH_LEDGER_ID": ledger.id})
    lease = steps.intend(
        steps.plan(name, name, 1, DEAD, time.time(), time.time() + 180.0),
        ResourceRef("room", SCOPE, name),
    )
    return ledger.write(steps.confirm(lease, ResourceRef("room", SCOPE, name, uid)))


@pytest.fixture
def reaping(ledger: DirectoryLedger, inventories: Inventories, rooms: Rooms) -> Iterator[list[list[Finding]]]:
    """The reaper at work in a thread, once the test has left something for it; what it found, at the end."""
    found: list[list[Finding]] = []
    yield found
    rooms.refuses.clear()
    until(lambda: found)


def begin(ledger: DirectoryLedger, everything: Inventories, found: list[list[Finding]]) -> None:
    patience = Patience(grace_s=0.05, deadline_s=900.0, look_every_s=0.2)
    work = lambda: found.append(reap(ledger, everything, patience=patience, confirm_s=0.0))  # noqa: E731
    threading.Thread(target=work, daemon=True).start()


def test_one_lease_goes_while_five_will_not(
    ledger: DirectoryLedger, inventories: Inventories, rooms: Rooms, reaping: list[list[Finding]]
) -> None:
    for n in range(5):
        rented(ledger, rooms, f"a{n}")
        rooms.refuses[f"a{n}"] = NEVER
    rented(ledger, rooms, "z")
    rooms.open("orphan", {"SLICEBENCH_LEASE": "never-e1", "SLICEBENCH_LEDGER_ID": ledger.id})
    begin(ledger, {**inventories, "room": rooms}, reaping)
    until(lambda: rooms.names() == [f"a{n}" for n in range(5)])
    assert reaping == [], "the five are still being asked"


def test_what_leaked_before_comes_last_and_is_not_waited_for_again(
    ledger: DirectoryLedger, inventories: Inventories, rooms: Rooms, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reaper, "_AGAIN_S", 0.1)
    monkeypatch.setattr(reaper, "_AT_ONCE", 1)
    for n in range(5):
        lease = steps.releasing(rented(ledger, rooms, f"a{n}"), DEAD, time.time(), "over")
        ledger.write(steps.leaked(ledger.write(lease), "it is refused"))
        rooms.refuses[f"a{n}"] = NEVER
    rented(ledger, rooms, "z")
    rooms.open("orphan", {"SLICEBENCH_LEASE": "never-e1", "SLICEBENCH_LEDGER_ID": ledger.id})
    begin_s = time.monotonic()
    found = reap(ledger, {**inventories, "room": rooms}, patience=Patience(0.05, 900.0, 0.02), confirm_s=0.0)
    assert time.monotonic() - begin_s < 300.0
    assert [(one.lease_id, one.did) for one in found] == [
        ("z-e1", "released"),
        ("never-e1", "released"),
        *((f"a{n}-e1", "leaked") for n in range(5)),
    ]
    assert rooms.asked[:2] == ["z", "orphan"]
    lease = ledger.read("a0-e1")
    assert lease is not None and lease.state is State.LEAKED


def test_what_is_gone_soon_is_seen_long_before_the_pace_of_its_kind(
    ledger: DirectoryLedger, inventories: Inventories, tmp_path: Path
) -> None:
    rooms = Rooms(
        tmp_path / "far", ledger.id, pace=Pace(look_every_s=900.0, goes_within_s=3600.0, remote=True)
    )
    rented(ledger, rooms, "z")
    rooms.refuses["z"] = 1
    [found] = reap(ledger, {**inventories, "room": rooms}, confirm_s=0.0)
    assert (found.did, rooms.asked) == ("released", ["z", "z"])


def test_a_lease_that_cannot_be_written_stops_no_other(
    ledger: DirectoryLedger, inventories: Inventories, rooms: Rooms
) -> None:
    for name in ("a", "z"):
        rented(ledger, rooms, name)
    file = Path(ledger.uri) / "a-e1.json"

    class Tearing(Rooms):
        def get(self, ref: ResourceRef) -> ResourceRef | None:
            if ref.name == "a":
                file.write_text("{")
            return super().get(ref)

    tearing = Tearing(rooms.folder, ledger.id)
    patience = Patience(0.05, PATIENCE_S, 0.02, renew_every_s=0.2)
    found = reap(ledger, {**inventories, "room": tearing}, patience=patience, confirm_s=0.0)
    assert {one.lease_id: (one.did, int(one.exit_code)) for one in found} == {
        "a-e1": ("failed", 3),
        "z-e1": ("released", 0),
    }
    assert rooms.names() == []


def test_jobs_are_begun_in_order_a_number_at_a_time_and_an_error_is_raised_at_the_end() -> None:
    begun: list[int] = []
    gate = threading.Event()

    def job(n: int) -> int:
        begun.append(n)
        if n == 0:
            gate.wait(PATIENCE_S)
        if n == 3:
            gate.set()
            raise ValueError(f"job {n}")
        return n * n

    with pytest.raises(ValueError, match="job 3"):
        together([lambda n=n: job(n) for n in range(5)], 2)  # type: ignore[misc]
    assert sorted(begun) == [0, 1, 2, 3, 4]
    assert together([lambda n=n: n * n for n in range(4)], 2) == [0, 1, 4, 9]  # type: ignore[misc]
    assert together([], 2) == []
