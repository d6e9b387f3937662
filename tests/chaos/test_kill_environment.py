"""Pull the plug before and after every mutating call of `env up` and `env down`: repeat reaches the goal, and back.

Calls into its cluster are struck in test_kill_environment_inside.py.
"""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from tasks.leases.lease import State
from tasks.leases.reaper import reap
from tasks.stages.environment import down, up
from tasks.stages.environment_plan import plan
from tests.chaos.driver import outcome, sample
from tests.cloud.container.leasing import a_ledger
from tests.cloud.container.running import Gke
from tests.cloud.project.leasing import desk, environment, inventories

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(3600)]

MOMENTS = ("kill_before", "kill_after")


def make() -> None:
    up(desk(), environment())


def unmake() -> None:
    down(desk(), environment(), bucket=True)


def sweep() -> None:
    ledger = a_ledger()
    did = {one.did for one in reap(ledger, inventories(ledger))}
    assert did <= {"put back", "released", "kept"}, did


def moments(calls: list[str]) -> list[tuple[int, str, str, bool]]:
    """Returns each call, by number, with each moment, and whether the reaper comes by afterwards; a sample of it."""
    chosen = sample([(4 * nth + at, call) for nth, call in enumerate(calls) for at in range(4)])
    return [(number // 4 + 1, call, MOMENTS[number % 2], number % 4 > 1) for number, call in chosen]


def calls_of(project: Gke, play: Callable[[], None]) -> list[str]:
    project.forget()
    assert outcome(play) == 0
    return [one["method"] for one in project.mutations()]


def killed_at(project: Gke, nth: int, moment: str, play: Callable[[], None]) -> None:
    project.no_faults()
    project.fault("mutating", moment, nth=nth)
    assert outcome(play) == -signal.SIGKILL, (nth, moment)
    project.no_faults()


def everything(project: Gke) -> object:
    return project.project_inventory(), project.inventory()


def test_killed_while_it_is_made(project: Gke) -> None:
    before = everything(project)
    calls = calls_of(project, make)
    whole = everything(project)
    assert outcome(unmake) == 0
    assert everything(project) == before
    for nth, call, moment, reaped in moments(calls):
        at = (nth, call, moment, reaped)
        killed_at(project, nth, moment, make)
        if reaped:
            assert outcome(sweep) == 0, at
        assert outcome(make) == 0, at
        assert named(everything(project)) == named(whole), at
        assert outcome(lambda: _is_empty()) == 0, at
        assert outcome(unmake) == 0, at
        assert everything(project) == before, at
        assert all(lease.state is State.GONE for lease in a_ledger().listing().leases), at


def test_killed_while_it_is_given_back(project: Gke) -> None:
    before = everything(project)
    assert outcome(make) == 0
    calls = calls_of(project, unmake)
    for nth, call, moment, reaped in moments(calls):
        at = (nth, call, moment, reaped)
        assert outcome(make) == 0, at
        killed_at(project, nth, moment, unmake)
        if reaped:
            assert outcome(sweep) == 0, at
        assert outcome(unmake) == 0, at
        assert everything(project) == before, at
        assert all(lease.state is State.GONE for lease in a_ledger().listing().leases), at


def test_killed_while_a_pool_gets_its_size_again(project: Gke) -> None:
    assert outcome(make) == 0
    whole = everything(project)
    for moment in MOMENTS:
        project.resize("mine", "tpu-node-pool-0", 0)
        project.forget()
        killed_at(project, 1, moment, make)
        assert [one["method"] for one in project.requests() if one["mutating"]] == ["SetNodePoolSize"]
        assert outcome(make) == 0, moment
        assert outcome(_is_empty) == 0, moment
        assert everything(project) == whole, moment
    assert outcome(unmake) == 0


def test_killed_while_its_window_is_set_it_is_its_own(project: Gke) -> None:
    """Whose a maintenance window is nothing but the record knows."""
    late = environment(cluster={"name": "mine", "private": True, "maintenance": "04:00"})
    assert outcome(make) == 0
    whole = everything(project)
    for moment in MOMENTS:
        project.forget()
        killed_at(project, 1, moment, lambda: up(desk(), late) and None)
        assert [one["method"] for one in project.requests() if one["mutating"]] == ["SetMaintenancePolicy"]
        assert outcome(make) == 0, moment
        assert window(project) == "", moment
        assert outcome(_is_empty) == 0, moment
        assert everything(project) == whole, moment
    assert outcome(unmake) == 0


def window(project: Gke) -> str:
    [cluster] = project.store.read()["clusters"].values()
    policy = cluster["spec"].get("maintenance_policy", {}).get("window", {})
    return str(policy.get("daily_maintenance_window", {}).get("start_time", ""))


def _is_empty() -> None:
    planned = plan(desk(), environment())
    assert planned.empty, planned


def named(found: object) -> str:
    """Returns what there is, without the numbers that each thing has of its own."""
    import re

    return re.sub(r"(tensorboards/|-)\d+", r"\1N", str(found))
