"""Teardown with something to keep: for whom it stays, what people are told, and that all else goes."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tasks.config.request import Keep
from tasks.leases import steps
from tasks.leases.clusters import lease_name
from tasks.leases.holding import Holding
from tasks.leases.lease import Owner, State
from tasks.leases.owner import this_process
from tasks.leases.resource import CLUSTER, JOBSET, ResourceRef
from tasks.stages.context import Run
from tasks.stages.provision import shape_of
from tasks.stages.teardown import teardown
from tasks.targets.types import Plan
from tests.tasks.leases.rooms import Rooms
from tests.tasks.targets.local_runs import hold, make_run, spec


class Landlord:
    """As much of a target as teardown sees: rooms may be kept."""

    def plan(self, spec: object) -> Plan:
        workload = ResourceRef(JOBSET, "cluster mine of proj in us-east5/default", "run-1-e1")
        return Plan("rooms", (workload,), 1, 1, 1, "cpu", price_per_hour=19.2, keepable=("room",))


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def rooms(tmp_path: Path) -> Rooms:
    return Rooms(tmp_path / "building", "unknown")


def a_run(tmp_path: Path, said: list[str], keep: Keep) -> Run:
    run = make_run(replace(spec(tmp_path), keep=keep, keep_for_s=7200.0), said)
    return replace(run, target=Landlord())  # type: ignore[arg-type]


def rented(run: Run, rooms: Rooms, price: float | None = 4.8) -> Holding:
    """Returns a lease with a room in it."""
    holding = hold(run)
    rooms.ledger_id = holding.labels["SLICEBENCH_LEDGER_ID"]
    holding.inventories = {**holding.inventories, "room": rooms}
    holding.describe(shape_of(run), price)
    rooms.rent(holding, "blue")
    holding.live()
    return holding


@pytest.mark.parametrize(
    ("keep", "failed", "stays"),
    [
        ("never", True, False),
        ("on_failure", False, False),
        ("on_failure", True, True),
        ("always", False, True),
    ],
)
def test_who_keeps_what(
    tmp_path: Path, said: list[str], rooms: Rooms, keep: Keep, failed: bool, stays: bool
) -> None:
    run = a_run(tmp_path, said, keep)
    holding = rented(run, rooms)
    done = teardown(run, holding, failed=failed)
    assert (rooms.names() == ["blue"]) is stays
    assert done.lease.state is (State.LIVE if stays else State.GONE)
    assert ("1 resource (room blue) given back, nothing is left" in said) is not stays
    marker = run.marker("teardown")
    assert marker is not None
    assert ("kept" in marker["outputs"]) is stays


def test_what_has_ended_by_itself_is_counted_as_the_plan_counted_it(
    tmp_path: Path, said: list[str], rooms: Rooms
) -> None:
    run = a_run(tmp_path, said, "never")
    holding = rented(run, rooms)
    rooms.rent(holding, "green")
    holding.adopt(rooms.kind, "building", "lobby", "lobby#1")
    (rooms.folder / "green").unlink()
    assert [ref.name for ref in teardown(run, holding).deleted] == ["blue"]
    assert "2 resources (room blue, room green) given back, nothing is left" in said


def test_what_was_given_back_before_is_not_counted_again(
    tmp_path: Path, said: list[str], rooms: Rooms
) -> None:
    run = a_run(tmp_path, said, "never")
    holding = rented(run, rooms)
    teardown(run, holding)
    said.clear()
    teardown(run, holding)
    assert said == ["everything was given back before"]


@pytest.mark.parametrize(
    ("price", "told"), [(4.8, "$4.80 an hour by list prices of 20"), (None, "price not known")]
)
def test_what_is_kept_is_told_with_price_and_the_command_that_deletes_it(
    tmp_path: Path, said: list[str], rooms: Rooms, price: float | None, told: str
) -> None:
    run = a_run(tmp_path, said, "always")
    holding = rented(run, rooms, price)
    teardown(run, holding)
    assert "kept: room blue in building" in said
    (line,) = [line for line in said if line.startswith("kept for 2 h, until ")]
    assert told in line
    assert any(line.endswith("slicebench reap --lease run-1") for line in said)
    assert holding.lease.expires_at == pytest.approx(time.time() + 7200.0, abs=60.0)
    assert holding.lease.shape == {
        "kind": "local", "platform": "cpu", "workers": "2", "slices": "1", "devices_per_worker": "auto"
    }  # fmt: skip


def test_where_nothing_is_whole_all_goes_back(tmp_path: Path, said: list[str], rooms: Rooms) -> None:
    run = a_run(tmp_path, said, "always")
    holding = hold(run)
    assert teardown(run, holding).lease.state is State.GONE
    assert "--keep always: there is nothing whole to keep" in said


@pytest.mark.parametrize(
    ("owner", "holders", "run_id", "told"),
    [
        (
            replace(this_process(), pid=4711, started_at=0.5),
            (),
            "run-0",
            r"still there: 1 resource \(gke_cluster mine\), \$19.20 an hour: .* process 4711 on .* is gone; "
            "slicebench reap gives it back, slicebench run --resume run-0 --output /r goes on with it",
        ),
        (
            this_process(),
            (),
            "run-0",
            "still there: .*: run run-0 works on it: .* lives, its last renewal .*",
        ),
        (
            None,
            ("run-7-e1",),
            "run-0",
            "still there: .*: used by run-7-e1, and given back with the last of them",
        ),
        (None, (), None, ""),
    ],
)
def test_a_cluster_that_stands_when_the_run_is_over_is_told_with_its_price_and_what_to_do(
    tmp_path: Path,
    said: list[str],
    owner: Owner | None,
    holders: tuple[str, ...],
    run_id: str | None,
    told: str,
) -> None:
    run = a_run(tmp_path, said, "never")
    holding = hold(run)
    ref = ResourceRef(CLUSTER, "proj/us-east5", "mine", "u1")
    theirs = steps.plan(lease_name("proj", "mine"), run_id, 1, owner, time.time(), None)
    theirs = replace(theirs, state=State.LIVE, resources=(ref,), holders=holders, folder="/r/run-0")
    holding.ledger.write(theirs)
    teardown(run, holding)
    assert len(said) == (2 if told else 1), said
    assert said[0] == (
        "nothing of the run's own was there to be given back" if told else "nothing was made, nothing is left"
    )
    assert not told or re.fullmatch(told, said[1])
