"""Provision: hardware that is there already is locked before it is touched, and the lease says what it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from runtime.contract.errors import BadInput, InfrastructureError, Problem
from tasks.leases.holding import Holding
from tasks.leases.locks import Locked
from tasks.stages.context import Run
from tasks.stages.provision import provision
from tasks.targets.types import Plan, Worker, Workers
from tests.tasks.targets.local_runs import hold, make_run, spec


class Host:
    """As much of a target as provision sees: one host that is there already."""

    def __init__(self, problems: Sequence[Problem] = ()) -> None:
        self.acquired: list[str] = []
        self.problems = list(problems)

    def plan(self, spec: object) -> Plan:
        return Plan("host", (), 1, 1, 1, "cpu", price_per_hour=1.5, locks=(("loopback", "host"),))

    def preflight(self, plan: Plan) -> list[Problem]:
        return self.problems

    def acquire(self, plan: Plan, lease: Holding) -> Workers:
        assert lease.lease.find("lock", "loopback", "host") is not None
        self.acquired.append(lease.lease.lease_id)
        return Workers([Worker(0, 0, "127.0.0.1")], "127.0.0.1", 1, "cpu")


def on(host: Host, tmp_path: Path, run_id: str, wait_s: float = 0.0) -> Run:
    return replace(make_run(replace(spec(tmp_path, run_id=run_id), wait_for_lock_s=wait_s)), target=host)  # type: ignore[arg-type]


def test_a_second_run_on_the_same_hardware_is_refused_before_it_is_touched(tmp_path: Path) -> None:
    host = Host()
    first, second = on(host, tmp_path, "run-1"), on(host, tmp_path, "run-2")
    lease = hold(first)
    provision(first, lease)
    assert (lease.lease.price_per_hour, lease.lease.shape["kind"]) == (1.5, "local")
    with pytest.raises(Locked, match="host in loopback is held by lease run-1-e1"):
        provision(second, hold(second))
    assert host.acquired == ["run-1-e1"]
    lease.release("over")
    provision(second, hold(second))
    assert host.acquired == ["run-1-e1", "run-2-e1"]


def test_a_service_that_does_not_answer_is_no_bad_input(tmp_path: Path) -> None:
    silent = Problem("error", None, "GKE cannot be asked", unanswered=True)
    for found, error in (
        ([silent], InfrastructureError),
        ([silent, Problem("error", None, "no such")], BadInput),
    ):
        run = on(Host(found), tmp_path, error.__name__.lower())
        with pytest.raises(error, match="GKE cannot be asked"):
            provision(run, hold(run))


def test_what_the_look_over_finds_stops_the_run_before_anything_is_touched_unless_it_is_skipped(
    tmp_path: Path,
) -> None:
    host = Host([Problem("error", None, "the host is asleep", fix="wake it")])
    run = on(host, tmp_path, "run-1")
    with pytest.raises(BadInput, match="the host is asleep"):
        provision(run, hold(run))
    assert host.acquired == []
    said: list[str] = []
    careless = replace(run, spec=replace(run.spec, run_id="run-2", skip_preflight=True), say=said.append)
    provision(careless, hold(careless))
    assert host.acquired == ["run-2-e1"]
    assert any("not looked over" in line for line in said)
