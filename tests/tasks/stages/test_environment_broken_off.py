"""An environment's cluster whose making or end breaks off: what stays, what goes on by itself, how to go on with it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from runtime.contract.errors import BadInput, Leaked, SlicebenchError
from tasks.config.environment_cluster import cluster_of
from tasks.leases.lease import State
from tasks.leases.ledger import latest
from tasks.leases.patience import USUAL
from tasks.leases.reaper import reap
from tasks.stages.clusters import delete, preview
from tasks.stages.environment import down
from tasks.stages.environment_plan import others_in
from tasks.targets.cluster_asked import POOL_S, Asked
from tests.cloud.container.leasing import a_ledger, office, quick_inventories
from tests.cloud.container.running import Gke
from tests.cloud.project.leasing import desk, environment
from tests.tasks.stages.test_environment_pools import make


def test_what_may_not_be_taken_away_is_told_before_anything_goes(
    project: Gke, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.set(whole=False)
    make()
    project.set(forbidden=["container.clusters.delete", "compute.routers.create", "storage.buckets.delete"])
    project.forget()
    with pytest.raises(BadInput, match=r"needed: container\.clusters\.delete, grant roles/container\.admin"):
        down(desk(), environment())
    assert project.mutations() == []
    project.set(forbidden=[])
    project.fault("DeleteCluster", "error", code="PERMISSION_DENIED", message="Required 'x'", times=1_000)
    monkeypatch.setattr("tasks.stages.by_name.USUAL", replace(USUAL, denied_s=0.2))
    with pytest.raises(Leaked, match=r"Required 'x'.* or grant roles/container\.admin"):
        down(desk(), environment())


def test_who_interrupts_its_end_is_told_what_goes_on_with_it(
    project: Gke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lease has no expiry: no reaper gives back what is left of it."""

    def interrupted(*words: Any, **named: Any) -> None:
        raise KeyboardInterrupt

    project.set(whole=False)
    make()
    with monkeypatch.context() as patched, pytest.raises(Leaked) as ended:
        patched.setattr("tasks.leases.holding.Holding.release", interrupted)
        down(desk(), environment())
    assert "may still be there; do the same again" in str(ended.value)
    assert "reap" not in str(ended.value)
    down(desk(), environment())
    assert project.inventory() == []


def test_a_cluster_that_is_being_given_back_is_made_anew_once_it_is_gone(
    project: Gke, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(line: str) -> None:
        if line.startswith("waiting for"):
            raise KeyboardInterrupt

    project.set(whole=False)
    make()
    project.set(delete_s=1.0)
    monkeypatch.setattr("tasks.stages.by_name.USUAL", replace(USUAL, tell_after_s=0.0))
    with pytest.raises(Leaked, match="may still be there; do the same again"):
        down(desk(stop), environment())
    told: list[str] = []
    planned = preview(office(told.append), "mine", cluster_of(environment(), "proj"))
    assert [str(one) for one in planned.steps] == ["make cluster mine", "make pool tpu-node-pool-0"]
    assert told == ["warning: cluster mine is being given back: that comes first, and is waited for"]
    assert others_in(office(), environment(), desk()) == ()
    make()
    lease = latest(a_ledger(), "cluster-mine_proj")
    assert lease is not None and (lease.epoch, sorted(project.pools("mine"))) == (
        2,
        ["cpu", "tpu-node-pool-0"],
    )


def test_what_is_under_way_when_it_is_interrupted_goes_on_and_counts_as_made(
    gke: Gke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slice that may have been waited for long is not given back, and the interrupt does not wait for it either."""
    follow = Asked.follow

    def interrupted(self: Asked, operation: str, limit_s: float) -> None:
        if limit_s == POOL_S:
            raise KeyboardInterrupt
        follow(self, operation, limit_s)

    told: list[str] = []
    gke.set(create_pool_s=1.0)
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Asked, "follow", interrupted)
        make(told.append)
    assert "(gke_node_pool tpu-node-pool-0) may still be in the making at GKE" in told[-1]
    lease = latest(a_ledger(), "cluster-mine_proj")
    assert lease is not None and (lease.owner, lease.stands) == (None, True)
    gke.forget()
    make(told.append)
    assert gke.mutations() == [] and gke.pools("mine")["tpu-node-pool-0"] == "RUNNING"
    lease = latest(a_ledger(), "cluster-mine_proj")
    assert lease is not None and not [ref for ref in lease.resources if ref.half]


def interrupted(gke: Gke) -> None:
    def say(line: str) -> None:
        if line.startswith("make pool"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make(say)


def refused(gke: Gke) -> None:
    gke.fault("CreateNodePool", "error", code="PERMISSION_DENIED", message="Required 'some.permission'")
    with pytest.raises(SlicebenchError, match=r"some\.permission"):
        make()


@pytest.mark.parametrize("end", [interrupted, refused])
def test_of_a_cluster_that_is_not_made_whole_what_is_stays_and_is_gone_on_with(gke: Gke, end: Any) -> None:
    end(gke)
    assert sorted(gke.pools("mine")) == ["cpu"]
    ledger = a_ledger()
    reap(ledger, quick_inventories(ledger))
    gke.forget()
    make()
    assert [one["method"] for one in gke.mutations()] == ["CreateNodePool"]
    delete(office(), "mine")
    assert gke.inventory() == []


def test_of_one_of_which_nothing_is_whole_nothing_stays(gke: Gke) -> None:
    gke.fault("CreateCluster", "error", code="PERMISSION_DENIED", message="Required 'some.permission'")
    with pytest.raises(SlicebenchError, match=r"some\.permission"):
        make()
    lease = latest(a_ledger(), "cluster-mine_proj")
    assert lease is not None and lease.state is State.GONE and gke.inventory() == []
