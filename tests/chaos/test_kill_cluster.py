"""Pull the plug before and after every mutating call that GKE sees of create, resize, delete and a run's own cluster.

The reaper leaves nothing of what was being made, everything that was kept before, and whatever others made.
"""

# ruff: noqa: F401 (fixtures are imported)

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import pytest

from tasks.leases.claim import claim
from tasks.leases.clusters import POOL
from tasks.leases.holding import Holding
from tasks.leases.lease import State
from tasks.leases.ledger import latest
from tasks.leases.reaper import reap
from tasks.stages.clusters import create, delete, resize
from tasks.targets.cluster_sharing import Ways, cluster_for, leave_cluster
from tasks.targets.cluster_wanted import Wanted
from tests.chaos.driver import fork_and_play, outcome, sample, soon_enough, took_s
from tests.cloud.container.hurried import container
from tests.cloud.container.leasing import a_ledger, config, office, quick_inventories
from tests.cloud.container.running import Gke
from tests.waiting import until

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1200)]

MOMENTS = ("kill_before", "kill_after")
NEW = ["CreateCluster", "CreateNodePool", "CreateNodePool"]


def a_run(run_id: str) -> None:
    """Does what a run does that makes its cluster and is the last to use it."""
    ledger = a_ledger()
    run = claim(ledger, quick_inventories(ledger), run_id, run_id)
    try:
        cluster_for(run, container(), Wanted("mine", config(slices=2)), Ways(poll_s=0.01))
        run.live()
    finally:
        assert run.release("the run is over").lease.state is State.GONE
        done = leave_cluster(run, container(), "mine")
        assert done is not None
        assert done.lease.state is State.GONE


def sweep_up(expected: dict[str, str]) -> Callable[[], None]:
    """Returns a reaper for a process of its own: a forked one may not share its parent's connections."""

    def sweep() -> None:
        ledger = a_ledger()
        findings = {one.lease_id: one.did for one in reap(ledger, quick_inventories(ledger))}
        assert findings == expected, findings

    return sweep


def others(gke: Gke) -> list[str]:
    """Puts a cluster there that another ledger's lease made, with a pool; returns what that is."""
    labels = {"slicebench-lease": "cluster-mine_proj-e1", "slicebench-ledger": "another"}
    pool = {"name": "np-0", "initial_node_count": 1, "config": {"resource_labels": labels}}
    key = gke.put("foreign", labels=labels, pools=[pool])
    return [key, f"{key}/nodePools/np-0"]


def moments(calls: list[str]) -> list[tuple[int, str, str]]:
    chosen = sample([(2 * nth + at, call) for nth, call in enumerate(calls) for at in (0, 1)])
    return [(number // 2 + 1, call, MOMENTS[number % 2]) for number, call in chosen]


def kill_at(gke: Gke, nth: int, moment: str, play_it: Callable[[], object]) -> None:
    """Plays until the plug is pulled at the nth mutating call that is not refused for the moment."""
    gke.no_faults()
    gke.fault("mutating", moment, nth=nth)
    assert outcome(play_it) == -signal.SIGKILL, (nth, moment)
    gke.no_faults()


def only_whole(gke: Gke, at: object) -> dict[str, str]:
    """Returns what a cluster has of node pools: all of them work, and are the lease's; nothing is under way."""
    pools, kept = gke.pools("mine"), latest(a_ledger(), "cluster-mine_proj")
    assert kept is not None
    assert set(pools.values()) == {"RUNNING"}, (at, pools)
    known = [ref for ref in kept.resources if ref.kind == POOL]
    assert {ref.name for ref in known} == pools.keys() - {"cpu"}, (at, known)
    assert not any(ref.half for ref in kept.resources), at
    return pools


def methods(gke: Gke) -> list[str]:
    return [one["method"] for one in gke.mutations()]


def lease_state(name: str = "cluster-mine_proj") -> State:
    lease = latest(a_ledger(), name)
    assert lease is not None
    return lease.state


@pytest.mark.parametrize("how", ["create and delete", "with a policy", "run"])
def test_killed_while_it_makes_or_deletes_a_cluster(gke: Gke, how: str) -> None:
    placed = {"type": "tpu7x-16", "zone": "us-east5-a"} if how == "with a policy" else {}

    def play() -> None:
        if how == "run":
            a_run(f"run-{time.monotonic_ns()}")
            return
        create(office(), "mine", config(slices=2, **placed))
        delete(office(), "mine")

    foreign = others(gke)
    assert outcome(play) == 0
    calls = methods(gke)
    expected = [*NEW, "DeleteCluster"]
    assert calls == (["InsertResourcePolicy", *expected, "DeleteResourcePolicy"] if placed else expected)
    took = []
    for nth, call, moment in moments(calls):
        at = (nth, call, moment)
        kill_at(gke, nth, moment, play)
        began = time.monotonic()
        assert outcome(sweep_all) == 0, at
        took.append(took_s(began))
        assert gke.inventory() == foreign, at
        assert all(lease.state is State.GONE for lease in a_ledger().listing().leases), at
    assert soon_enough(took), took


def sweep_all() -> None:
    ledger = a_ledger()
    findings = {one.did for one in reap(ledger, quick_inventories(ledger))}
    assert findings == {"released"}, findings


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


@pytest.mark.parametrize("look", [1, 2, 3, 4])
def test_killed_while_gke_makes_a_node_pool(gke: Gke, look: int) -> None:
    """Between two calls that change something: the pool was asked for, is known, and comes up when nobody looks."""
    gke.set(slow={"CREATE_NODE_POOL": 0.5})
    assert outcome(lambda: create(office(), "mine", config(slices=1))) == 0
    gke.fault("GetOperation", "kill_before", nth=look)
    assert outcome(lambda: resize(office(), "mine", 3)) == -signal.SIGKILL
    gke.no_faults()
    lease = latest(a_ledger(), "cluster-mine_proj")
    assert lease is not None
    assert outcome(sweep_up({lease.lease_id: "put back"})) == 0
    assert only_whole(gke, look).keys() >= {"cpu", "np-0"}
    assert outcome(lambda: delete(office(), "mine")) == 0
    assert gke.inventory() == []


def test_killed_while_it_makes_a_cluster_and_made_whole_by_the_same_call(gke: Gke) -> None:
    """No reaper has been there: whoever asks for the name again goes on where the first one died."""
    foreign = others(gke)
    for nth, call, moment in moments(NEW):
        at = (nth, call, moment)
        before = len(gke.requests("CreateCluster"))
        kill_at(gke, nth, moment, lambda: create(office(), "mine", config(slices=2)))
        assert outcome(lambda: create(office(), "mine", config(slices=2))) == 0, at
        assert gke.pools("mine") == {"cpu": "RUNNING", "np-0": "RUNNING", "np-1": "RUNNING"}, at
        tries = len(gke.requests("CreateCluster")) - before
        assert tries == (2 if (nth, moment) == (1, "kill_before") else 1), at
        assert outcome(lambda: delete(office(), "mine")) == 0, at
        assert (gke.inventory(), lease_state()) == (foreign, State.GONE), at


def test_killed_while_it_adds_to_a_cluster_that_was_there(gke: Gke) -> None:
    key = gke.put("mine")
    for nth, call, moment in moments(["CreateNodePool", "CreateNodePool"]):
        at = (nth, call, moment)
        kill_at(gke, nth, moment, lambda: create(office(), "mine", config(slices=2)))
        assert outcome(sweep_all) == 0, at
        assert (gke.inventory(), lease_state()) == ([key], State.GONE), at


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


def the_second(run_id: str) -> None:
    """Does what a run does that finds another at the making, and may not be the last to use it."""
    ledger = a_ledger()
    run = claim(ledger, quick_inventories(ledger), run_id, run_id)
    cluster_for(run, container(), Wanted("mine", config(slices=2)), Ways(poll_s=0.02))
    run.live()
    assert run.release("the run is over").lease.state is State.GONE
    leave_cluster(run, container(), "mine")


def test_one_of_two_runs_is_killed_while_it_makes_the_cluster_that_both_use(gke: Gke) -> None:
    """The other one goes on with the making, and uses it; what is left of both goes, once the reaper has been."""
    foreign = others(gke)
    for nth, call, moment in moments(NEW):
        at = (nth, call, moment)
        gke.no_faults()
        gke.set(slow={"CREATE_CLUSTER": 0.4})
        gke.fault("mutating", moment, nth=nth)
        made_before = len(gke.requests("CreateCluster"))
        first = fork_and_play(lambda nth=nth, moment=moment: a_run(f"first-{nth}-{moment}"))  # type: ignore[misc]
        until(
            lambda: any(one.owner for one in a_ledger().listing().leases if one.name == "cluster-mine_proj")
        )
        second = fork_and_play(lambda nth=nth, moment=moment: the_second(f"second-{nth}-{moment}"))  # type: ignore[misc]
        ends = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in (first, second)]
        assert ends == [-signal.SIGKILL, 0], at
        assert gke.inventory() != foreign, at  # the dead run still holds it
        assert outcome(sweep_all) == 0, at
        assert gke.inventory() == foreign, at
        assert all(lease.state is State.GONE for lease in a_ledger().listing().leases), at
        tries = len(gke.requests("CreateCluster")) - made_before
        assert tries == (2 if (nth, moment) == (1, "kill_before") else 1), at
