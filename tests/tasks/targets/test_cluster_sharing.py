"""Runs and their clusters: made by the first, shared, given back by the last; one that was there stays."""

# ruff: noqa: F401, F811 (fixtures are imported)

from __future__ import annotations

from dataclasses import replace

import pytest

from tasks.leases.claim import claim, latest
from tasks.leases.holding import Holding, Taken
from tasks.leases.lease import Lease, State
from tasks.leases.reaper import reap
from tasks.stages.clusters import create, delete
from tasks.targets.cluster_sharing import Missing, Wanted, Ways, cluster_for, leave_cluster
from tests.cloud.container.hurried import ZONE, container, pool_request
from tests.cloud.container.leasing import a_ledger, config, office, quick_inventories
from tests.cloud.container.running import Gke, gke, gke_server


def a_run(name: str) -> Holding:
    ledger = a_ledger()
    return claim(ledger, quick_inventories(ledger), name, name)


def use(run: Holding, slices: int = 1, *, make: bool = True) -> str:
    return cluster_for(run, container(), Wanted("mine", config(slices=slices), make), Ways(poll_s=0.01)).state


def over(run: Holding) -> bool:
    """Ends a run; says whether the cluster went with it."""
    assert run.release("over").lease.state is State.GONE
    done = leave_cluster(run, container(), "mine")
    return done is not None and done.lease.state is State.GONE


def lease() -> Lease:
    found = latest(a_ledger(), "cluster-mine_proj")
    assert found is not None
    return found


def test_the_first_makes_it_and_the_last_gives_it_back(gke: Gke) -> None:
    first, second = a_run("one"), a_run("two")
    assert (use(first), use(second)) == ("RUNNING", "RUNNING")
    assert len(gke.requests("CreateCluster")) == 1
    assert (lease().holders, lease().owner) == (("one-e1", "two-e1"), None)
    assert {one.did for one in reap(a_ledger(), quick_inventories(a_ledger()))} == {"kept"}
    assert not over(first)
    assert gke.pools("mine") == {"cpu": "RUNNING", "np-0": "RUNNING"}
    assert over(second)
    assert (gke.inventory(), lease().state) == ([], State.GONE)


def test_the_last_one_out_that_is_killed_leaves_it_to_the_reaper(gke: Gke) -> None:
    run = a_run("one")
    use(run)
    assert run.release("over").lease.state is State.GONE
    found = {one.lease_id: one.did for one in reap(a_ledger(), quick_inventories(a_ledger()))}
    assert (found, gke.inventory()) == ({"cluster-mine_proj-e1": "released"}, [])


def test_one_that_another_process_is_just_making_is_waited_for(gke: Gke) -> None:
    making = claim(a_ledger(), quick_inventories(a_ledger()), "cluster-mine_proj", "one")
    owner = making.lease.owner
    assert owner is not None
    held = a_ledger().write(replace(making.lease, owner=replace(owner, host="elsewhere", boot_id="b")))
    said: list[str] = []

    def waiting(line: str) -> None:
        if not said:  # it is done there meanwhile
            said.append(line)
            a_ledger().write(replace(held, owner=owner))
            use(a_run("one"))

    two = a_run("two")
    wanted = Wanted("mine", config(slices=1))
    assert cluster_for(two, container(), wanted, Ways(poll_s=0.01, say=waiting)).state == "RUNNING"
    assert "waiting: cluster-mine_proj is held by" in said[0]
    assert len(gke.requests("CreateCluster")) == 1
    assert lease().holders == ("one-e1", "two-e1")
    with pytest.raises(Taken):
        a_ledger().write(replace(lease(), owner=replace(owner, host="elsewhere", boot_id="b")))
        cluster_for(a_run("three"), container(), wanted, Ways(poll_s=0.01, wait_s=0.0))


def test_one_that_cannot_be_had_whole_is_given_back(gke: Gke) -> None:
    gke.set(stockouts=[ZONE + "/ct5lp-hightpu-4t"])
    run = a_run("one")
    with pytest.raises(Exception, match="GCE_STOCKOUT"):
        use(run)
    assert (gke.inventory(), lease().state, run.lease.resources) == ([], State.GONE, ())


def test_one_that_somebody_keeps_stays(gke: Gke) -> None:
    create(office(), "mine", config(slices=1))
    run = a_run("one")
    use(run)
    with pytest.raises(Exception, match="is used by one-e1"):
        delete(office(), "mine")
    assert not over(run)
    assert len(gke.inventory()) == 3
    delete(office(), "mine")


def test_one_that_others_made_stays(gke: Gke) -> None:
    key = gke.put("mine", pools=[pool_request("pool")])
    run = a_run("one")
    use(run)
    assert [(ref.kind, ref.ours) for ref in run.lease.resources] == [("gke_cluster", False)]
    assert not over(run)
    assert gke.inventory() == [key, f"{key}/nodePools/pool"]


def test_one_that_is_missing_may_not_be_made_or_lacks_what_is_needed(gke: Gke) -> None:
    with pytest.raises(Missing, match="there is no cluster 'mine'"):
        use(a_run("one"), make=False)
    create(office(), "mine", config(slices=1))
    gke.spoil("mine", "np-0")
    with pytest.raises(Missing, match=r"has 0 of the 1 node pools .* \(np-0: ERROR: .*GCE_STOCKOUT"):
        use(a_run("two"))
    with pytest.raises(Missing, match="has 0 of the 2 node pools"):
        use(a_run("three"), slices=2)
