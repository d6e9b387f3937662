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
from tasks.targets.cluster_sharing import Ways, cluster_for
from tasks.targets.cluster_wanted import Wanted
from tests.chaos.driver import fork_and_play, outcome, sample, soon_enough, took_s
from tests.cloud.container.hurried import container
from tests.cloud.container.leasing import a_ledger, config, left_by, office, quick_inventories
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
        done = left_by(run)
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


def sweep_any(expected: set[str]) -> Callable[[], None]:
    """Returns a reaper for a process of its own, which does some of this and nothing else."""

    def sweep() -> None:
        ledger = a_ledger()
        findings = {one.did for one in reap(ledger, quick_inventories(ledger))}
        assert findings <= expected, findings

    return sweep


sweep_all = sweep_any({"released"})


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


def the_second(run_id: str) -> None:
    """Does what a run does that finds another at the making, and may not be the last to use it."""
    ledger = a_ledger()
    run = claim(ledger, quick_inventories(ledger), run_id, run_id)
    cluster_for(run, container(), Wanted("mine", config(slices=2)), Ways(poll_s=0.02))
    run.live()
    assert run.release("the run is over").lease.state is State.GONE
    left_by(run)


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
