"""Pull the plug before and after every mutating call that GKE sees while a cluster that is kept is changed or repaired.

What was kept is there afterwards, nothing is made for who is dead, and the lease says what is there.
"""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from tasks.cloud.pool_sizes import pool_as_now
from tasks.leases.clusters import POOL
from tasks.leases.lease import State
from tasks.leases.ledger import latest
from tasks.stages.clusters import create, delete, resize
from tests.chaos.driver import outcome
from tests.chaos.test_kill_cluster import (
    MOMENTS,
    NEW,
    kill_at,
    lease_state,
    methods,
    moments,
    others,
    sweep_any,
    sweep_up,
)
from tests.cloud.container.hurried import QUICK, container
from tests.cloud.container.leasing import a_ledger, config, office
from tests.cloud.container.running import Gke

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1200)]


def only_whole(gke: Gke, at: object) -> dict[str, str]:
    """Returns what a cluster has of node pools: all of them work, and are the lease's; nothing is under way."""
    pools, kept = gke.pools("mine"), latest(a_ledger(), "cluster-mine_proj")
    assert kept is not None
    assert set(pools.values()) == {"RUNNING"}, (at, pools)
    known = [ref for ref in kept.resources if ref.kind == POOL]
    assert {ref.name for ref in known} == pools.keys() - {"cpu"}, (at, known)
    assert not any(ref.half for ref in kept.resources), at
    return pools


GROW, SHRINK = ["CreateNodePool", "CreateNodePool"], ["DeleteNodePool", "DeleteNodePool"]


@pytest.mark.parametrize(("begin", "end", "calls"), [(1, 3, GROW), (3, 1, SHRINK)])
def test_killed_while_it_resizes_a_kept_cluster(gke: Gke, begin: int, end: int, calls: list[str]) -> None:
    """What was kept before is there afterwards, whole; what was half made is not; and it can be done again."""
    foreign = others(gke)
    for nth, call, moment in moments(calls):
        at = (nth, call, moment)
        assert outcome(lambda: create(office(), "mine", config(slices=begin))) == 0, at
        before = len(methods(gke))
        kill_at(gke, nth, moment, lambda: resize(office(), "mine", end))
        lease = latest(a_ledger(), "cluster-mine_proj")
        assert lease is not None
        assert outcome(sweep_up({lease.lease_id: "put back"})) == 0, at
        assert only_whole(gke, at).keys() >= {"cpu", "np-0"}, at
        assert outcome(lambda: resize(office(), "mine", end)) == 0, at
        assert gke.pools("mine") == {"cpu": "RUNNING", **{f"np-{n}": "RUNNING" for n in range(end)}}, at
        assert len(methods(gke)) > before, at
        assert outcome(lambda: delete(office(), "mine")) == 0, at
        assert (gke.inventory(), lease_state()) == (foreign, State.GONE), at


MACHINES = {"type": "l4-1", "zone": "us-central1-a"}


def said_and_there() -> tuple[str, int]:
    """Returns how many machines the lease says that there are, and how many there are to be."""
    lease = latest(a_ledger(), "cluster-mine_proj")
    assert lease is not None
    assert (lease.owner, [ref for ref in lease.resources if ref.resizing or ref.half]) == (None, [])
    there = pool_as_now(container().pool("us-central1", "mine", "np-0"), QUICK)
    return lease.shape["machines"], there.size


def the_same(expected: int) -> Callable[[], None]:
    """Returns a look, for a process of its own, whether the lease says what is there, and that is so much."""

    def look() -> None:
        assert said_and_there() == (str(expected), expected), said_and_there()

    return look


@pytest.mark.parametrize("call", ["mutating", "GetOperation"])
@pytest.mark.parametrize(("begin", "end"), [(2, 5), (5, 2)])
def test_killed_while_machines_come_or_go(gke: Gke, begin: int, end: int, call: str) -> None:
    """The lease says how many there are, and those are the fewer of both, until somebody asks for more again."""
    for nth in (1,) if call == "mutating" else (1, 2, 3):
        for moment in MOMENTS:
            at = (nth, moment)
            assert outcome(lambda: create(office(), "mine", config(**MACHINES, nodes=begin))) == 0, at
            for afterwards in ("reaper", "again"):
                assert outcome(lambda: resize(office(), "mine", begin)) == 0, at
                gke.hold("SET_NODE_POOL_SIZE")  # until it was looked at so often, however slow the machine
                gke.fault(call, moment, nth=nth)
                assert outcome(lambda: resize(office(), "mine", end)) == -signal.SIGKILL, at
                gke.no_faults()
                gke.let_end(0.3)
                if afterwards == "reaper":
                    assert outcome(sweep_up({"cluster-mine_proj-e1": "put back"})) == 0, at
                    assert outcome(the_same(2)) == 0, at
                assert outcome(lambda: resize(office(), "mine", end)) == 0, at
                assert outcome(the_same(end)) == 0, at
    assert outcome(lambda: delete(office(), "mine")) == 0
    assert gke.inventory() == []


@pytest.mark.parametrize("afterwards", ["reaper", "again", "smaller"])
def test_killed_while_a_kept_one_in_error_is_replaced(gke: Gke, afterwards: str) -> None:
    """It is made anew by whoever asks again; else what is whole of the new one stays, or nothing of both."""
    wanted = config(slices=1 if afterwards == "smaller" else 2)
    for nth, call, moment in moments(["DeleteCluster", *NEW]):
        at = (nth, call, moment)
        assert outcome(lambda: create(office(), "mine", config(slices=2))) == 0, at
        gke.spoil("mine")
        kill_at(gke, nth, moment, lambda: create(office(), "mine", config(slices=2)))
        if afterwards == "reaper":
            assert outcome(sweep_any({"put back", "released"})) == 0, at
            whole = gke.pools("mine").keys() - {"cpu"} if gke.inventory() else set()
            kept = latest(a_ledger(), "cluster-mine_proj")
            assert kept is not None
            assert (kept.state is State.GONE) == (gke.inventory() == []), at
            assert kept.state is State.GONE or kept.shape["slices"] == str(len(whole)), at
        assert outcome(lambda: create(office(), "mine", wanted)) == 0, at
        assert only_whole(gke, at).keys() == {"cpu", *(f"np-{n}" for n in range(wanted.slices))}, at
        assert outcome(lambda: delete(office(), "mine")) == 0, at
        assert (gke.inventory(), lease_state()) == ([], State.GONE), at


@pytest.mark.parametrize("look", [1, 2, 3, 4])
def test_killed_while_gke_makes_a_node_pool(gke: Gke, look: int) -> None:
    """Between two calls that change something: the pool was asked for, is known, and comes up when nobody looks."""
    assert outcome(lambda: create(office(), "mine", config(slices=1))) == 0
    gke.hold("CREATE_NODE_POOL")
    gke.fault("GetOperation", "kill_before", nth=look)
    assert outcome(lambda: resize(office(), "mine", 3)) == -signal.SIGKILL
    gke.no_faults()
    gke.let_end(0.5)
    lease = latest(a_ledger(), "cluster-mine_proj")
    assert lease is not None
    assert outcome(sweep_up({lease.lease_id: "put back"})) == 0
    assert only_whole(gke, look).keys() >= {"cpu", "np-0"}
    assert outcome(lambda: delete(office(), "mine")) == 0
    assert gke.inventory() == []


def test_killed_while_it_repairs(gke: Gke) -> None:
    for nth, call, moment in moments(["DeleteNodePool", "CreateNodePool"]):
        at = (nth, call, moment)
        assert outcome(lambda: create(office(), "mine", config(slices=1))) == 0, at
        gke.spoil("mine", "np-0")
        kill_at(gke, nth, moment, lambda: create(office(), "mine", config(slices=1)))
        lease = latest(a_ledger(), "cluster-mine_proj")
        assert lease is not None
        assert outcome(sweep_up({lease.lease_id: "put back"})) == 0, at
        assert outcome(lambda: create(office(), "mine", config(slices=1))) == 0, at
        assert gke.pools("mine") == {"cpu": "RUNNING", "np-0": "RUNNING"}, at
    assert outcome(lambda: delete(office(), "mine")) == 0
    assert gke.inventory() == []
