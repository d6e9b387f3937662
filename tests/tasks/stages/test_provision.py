"""Provision: hardware that is there already is locked before it is touched, and the lease says what it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tasks.leases.holding import Holding
from tasks.leases.locks import Locked
from tasks.stages.context import Run
from tasks.stages.provision import provision
from tasks.targets.types import Plan, Worker, Workers
from tests.tasks.targets.local_runs import hold, make_run, spec


class Host:
    """As much of a target as provision sees: one host that is there already."""

    def __init__(self) -> None:
        self.acquired: list[str] = []

    def plan(self, spec: object) -> Plan:
        return Plan("host", (), 1, 1, 1, "cpu", price_per_hour=1.5, locks=(("loopback", "host"),))

    def preflight(self, plan: Plan) -> list[object]:
        return []

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
