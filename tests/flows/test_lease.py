"""The hook that gives a run's hardware back: only where the owner is known to be dead, or silent for too long."""

from __future__ import annotations

import datetime
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from flows.benchmark import give_back
from flows.lease import release_run
from tasks.config.home import ledger_folder
from tasks.leases import steps
from tasks.leases.claim import claim
from tasks.leases.directory_ledger import DirectoryLedger
from tasks.leases.holding import Holding
from tasks.leases.lease import Lease, State
from tasks.leases.opening import the_inventories

ELSEWHERE = [{"host": "laptop"}, {"pid_namespace": "pid:[1]"}, {"boot_id": "another"}]


@pytest.fixture
def ledger() -> DirectoryLedger:
    return DirectoryLedger(ledger_folder())


@pytest.fixture
def holding(ledger: DirectoryLedger) -> Holding:
    return claim(ledger, the_inventories(ledger), "run", "run")


def stored(ledger: DirectoryLedger) -> Lease:
    lease = ledger.read("run-e1")
    assert lease is not None
    return lease


def alter_owner(ledger: DirectoryLedger, **changes: Any) -> None:
    lease = stored(ledger)
    assert lease.owner is not None
    ledger.write(replace(lease, owner=replace(lease.owner, pid=1, started_at=0.5, **changes)))


@pytest.mark.parametrize("changes", ELSEWHERE)
def test_a_late_hook_leaves_a_lease_that_another_machine_renews(
    holding: Holding, ledger: DirectoryLedger, changes: dict[str, str]
) -> None:
    alter_owner(ledger, **changes)
    give_back(
        SimpleNamespace(name="benchmark"),  # type: ignore[arg-type]
        SimpleNamespace(
            id=uuid4(), created=datetime.datetime.now(datetime.UTC), parameters={"run_id": "run"}
        ),  # type: ignore[arg-type]
        SimpleNamespace(name="Crashed"),  # type: ignore[arg-type]
    )
    assert stored(ledger).state is State.PLANNED


def test_one_that_is_overdue_is_watched_and_left_when_it_is_renewed(
    holding: Holding, ledger: DirectoryLedger
) -> None:
    alter_owner(ledger, host="laptop")
    later = time.time() + 300.0

    def renew(seconds: float) -> None:
        ledger.write(steps.renew(stored(ledger), later, later + 180.0))

    release_run("run", "run", "it crashed", now=lambda: later, sleep=renew)
    assert stored(ledger).state is State.PLANNED


@pytest.mark.parametrize("later_s", [100.0, 300.0])
def test_one_that_fell_silent_goes(holding: Holding, ledger: DirectoryLedger, later_s: float) -> None:
    alter_owner(ledger, host="laptop")
    watched: list[float] = []
    release_run("run", "run", "it crashed", now=lambda: time.time() + later_s, sleep=watched.append)
    assert (stored(ledger).state, watched) == (State.GONE, [25.0])


def test_one_whose_owner_is_dead_goes_at_once(holding: Holding, ledger: DirectoryLedger) -> None:
    alter_owner(ledger)
    release_run("run", "run", "it crashed", sleep=_never)
    assert stored(ledger).state is State.GONE


def _never(seconds: float) -> None:
    raise AssertionError("there is nothing to wait for")


def test_one_that_somebody_else_takes_meanwhile_is_left_to_them(
    holding: Holding, ledger: DirectoryLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    alter_owner(ledger)

    def take_first(*words: Any) -> Any:
        ledger.write(replace(stored(ledger), note="another was here"))
        return the_inventories(*words)

    monkeypatch.setattr("flows.lease.the_inventories", take_first)
    release_run("run", "run", "it crashed")
    assert stored(ledger).note == "another was here"
