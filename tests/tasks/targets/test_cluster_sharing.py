"""Runs and their clusters: made by the first, shared, given back by the last; one that was there stays."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from runtime.contract.errors import InfrastructureError, Leaked
from tasks.cloud.container_model import Cluster
from tasks.config.accelerators import accelerator
from tasks.leases.claim import claim, latest
from tasks.leases.holding import Holding, Taken
from tasks.leases.keeping import claim_kept
from tasks.leases.lease import Lease, State
from tasks.leases.reaper import reap
from tasks.leases.release import Release
from tasks.leases.shares import keep_shared
from tasks.stages.clusters import create, delete
from tasks.targets import cluster_sharing
from tasks.targets.cluster_find import find
from tasks.targets.cluster_fit import Need
from tasks.targets.cluster_sharing import Ways, cluster_for
from tasks.targets.cluster_wanted import Missing, Wanted
from tests.cloud.container.hurried import ZONE, container, pool_request
from tests.cloud.container.leasing import a_ledger, config, left_by, office, quick_inventories
from tests.cloud.container.running import Gke


def a_run(name: str) -> Holding:
    ledger = a_ledger()
    return claim(ledger, quick_inventories(ledger), name, name)


def use(run: Holding, slices: int = 1, *, make: bool = True) -> str:
    return cluster_for(run, container(), Wanted("mine", config(slices=slices), make), Ways(poll_s=0.01)).state


def over(run: Holding) -> bool:
    """Ends a run; says whether the cluster went with it."""
    assert run.release("over").lease.state is State.GONE
    done = left_by(run)
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


def test_one_that_is_not_proven_gone_has_leaked(gke: Gke, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Holding.release

    def unproven(*words: Any) -> Release:
        done = real(*words)
        return replace(done, lease=replace(done.lease, state=State.LEAKED, note="np-0 is still there"))

    gke.set(stockouts=[ZONE + "/ct5lp-hightpu-4t"])
    monkeypatch.setattr(Holding, "release", unproven)
    with pytest.raises(Leaked, match="GCE_STOCKOUT.*; not proven gone: np-0 is still there"):
        use(a_run("one"))


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


def test_what_a_cluster_of_others_lacks_is_added_beside_what_is_there_and_goes_with_the_last(
    gke: Gke,
) -> None:
    another = pool_request("np-0")
    another["config"]["machine_type"], another["placement_policy"] = "n2-standard-4", {}
    key = gke.put("mine", pools=[another, pool_request("theirs")])
    first, second = a_run("one"), a_run("two")
    use(first, slices=2)
    assert gke.pools("mine") == dict.fromkeys(("np-0", "theirs", "np-1"), "RUNNING")
    use(second, slices=3)  # what is there by now counts, and one more is added
    assert gke.pools("mine") == dict.fromkeys(("np-0", "theirs", "np-1", "np-2"), "RUNNING")
    assert lease().holders == ("one-e1", "two-e1")
    assert not over(second)
    assert set(gke.pools("mine")) == {"np-0", "theirs", "np-1", "np-2"}
    assert over(first)
    assert gke.inventory() == sorted([key, f"{key}/nodePools/np-0", f"{key}/nodePools/theirs"])


def test_slices_that_somebody_keeps_in_a_cluster_are_not_made_more_for_a_run(gke: Gke) -> None:
    gke.put("mine")
    create(office(), "mine", config(slices=1))
    use(a_run("one"), slices=1)
    with pytest.raises(Missing, match="has 1 of the 2 node pools of v5litepod-16 that are needed"):
        use(a_run("two"), slices=2)
    assert lease().stands


def test_nothing_is_added_where_gke_adds_node_pools_itself(gke: Gke) -> None:
    key = gke.put("mine")
    with gke.store.changing() as state:
        state["clusters"][key]["spec"]["autoscaling"] = {"enable_node_autoprovisioning": True}
    use(a_run("one"), slices=2)
    assert gke.mutations() == []


def test_types_that_no_pool_can_be_told_by_are_taken_as_they_are(gke: Gke) -> None:
    gke.put("mine")
    run = a_run("one")
    need = Need(accelerator("cpu", None, 2), 1, 2)
    wanted = Wanted("mine", None, False, "us-east5", need)
    assert cluster_for(run, container(), wanted, Ways(poll_s=0.01)).name == "mine"


def test_making_is_waited_for_within_its_limit_and_said(gke: Gke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.targets.cluster_asked._TELL_S", 0.02)
    gke.set(slow={"CREATE_CLUSTER": 1.0})
    run, said = a_run("one"), list[str]()
    wanted = Wanted("mine", config(slices=1))
    with pytest.raises(Exception, match="it takes more than 0 s"):
        cluster_for(run, container(), wanted, Ways(said.append, poll_s=0.01, limit_s=0.3))
    assert any("waiting for GKE to end operation-" in line for line in said)
    assert (gke.inventory(), lease().state) == ([], State.GONE)


def test_one_that_others_are_just_making_is_waited_for_for_so_long(gke: Gke) -> None:
    key = gke.put("mine", pools=[pool_request("pool")])
    with gke.store.changing() as state:
        state["clusters"][key]["status"] = "PROVISIONING"
    said: list[str] = []

    def come(line: str) -> None:
        said.append(line)
        with gke.store.changing() as state:
            state["clusters"][key]["status"] = "RUNNING"

    wanted = Wanted("mine", config(slices=1))
    with pytest.raises(Exception, match="being made or deleted by somebody else: that takes more than 0 s"):
        cluster_for(a_run("one"), container(), wanted, Ways(poll_s=0.01, wait_s=0.0))
    assert cluster_for(a_run("two"), container(), wanted, Ways(come, poll_s=0.01)).state == "RUNNING"
    assert said == ["waiting: cluster mine is being made or deleted by somebody else"]


def test_one_that_cannot_be_used_once_it_is_made_is_given_back(gke: Gke) -> None:
    def refuse(there: Cluster, own: Holding | None) -> None:
        raise InfrastructureError(f"{there.name} has no JobSet")

    with pytest.raises(InfrastructureError, match="mine has no JobSet"):
        cluster_for(a_run("one"), container(), Wanted("mine", config()), Ways(poll_s=0.01, ready=refuse))
    assert (gke.inventory(), lease().state) == ([], State.GONE)


def test_one_that_is_kept_for_a_time_is_used_and_goes_when_it_is_over(gke: Gke) -> None:
    first, second = a_run("one"), a_run("two")
    use(first)
    kept = keep_shared(a_ledger(), lease().lease_id, time.time() + 600, {"type": "v5litepod-16"}, 1.5)
    assert kept is not None and (kept.shape, kept.price_per_hour) == ({"type": "v5litepod-16"}, 1.5)
    assert not over(first)
    use(second)
    assert not over(second)
    assert {one.did for one in reap(a_ledger(), quick_inventories(a_ledger()))} == {"kept"}
    late = {one.did for one in reap(a_ledger(), quick_inventories(a_ledger()), now=lambda: time.time() + 700)}
    assert (late, gke.inventory()) == ({"released"}, [])


def test_one_that_was_kept_serves_a_run_as_its_own_lease(gke: Gke) -> None:
    first = a_run("one")
    use(first)
    keep_shared(a_ledger(), lease().lease_id, time.time() + 600, {}, None)
    assert not over(first)
    ledger = a_ledger()
    again = claim_kept(ledger, quick_inventories(ledger), "cluster-mine_proj", "two", {})
    use(again)
    with pytest.raises(Missing, match="has 1 of the 2 node pools"):
        use(again, slices=2)
    assert len(gke.requests("CreateCluster")) == 1
    assert again.release("over").lease.state is State.GONE
    assert gke.inventory() == []


def test_what_is_waited_for_is_not_said_again_because_a_count_of_seconds_changed(
    gke: Gke, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = iter(range(9))
    assert use(a_run("one")) == "RUNNING"
    there = find(container(), "mine", "")

    def look(*of: object) -> Cluster | None:
        if (age := next(looks)) < 4:
            raise Taken(f"it is held, renewed {age} s ago")
        return None if age < 8 else there

    said: list[str] = []
    monkeypatch.setattr(cluster_sharing, "_tried", look)
    cluster_for(a_run("two"), container(), Wanted("mine", config(slices=1)), Ways(said.append, poll_s=0.0))
    assert said == [
        "waiting: it is held, renewed 0 s ago; what it makes is shared",
        "waiting: cluster mine is being made or deleted by somebody else",
    ]
