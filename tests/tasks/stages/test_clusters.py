"""Clusters that people keep, against the stand-in: made, repaired, resized, half made, given back; others' stay."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runtime.contract.errors import BadInput
from tasks.cloud.container_errors import PermissionDenied
from tasks.cloud.container_model import Cluster
from tasks.config.cluster import ClusterConfig
from tasks.leases.claim import claim
from tasks.leases.directory_ledger import DirectoryLedger
from tasks.leases.holding import Taken
from tasks.leases.lease import Lease, State
from tasks.leases.ledger import latest
from tasks.leases.opening import the_inventories
from tasks.leases.reaper import reap
from tasks.stages.cluster_inside import Inside, Nodes
from tasks.stages.cluster_standing import Office, describe, listing
from tasks.stages.clusters import (
    Declined,
    create,
    delete,
    preview,
    resize,
)
from tasks.targets.cluster_making import NotWhole
from tasks.targets.cluster_plan import ClusterPlan
from tests.cloud.container.hurried import REGION, container, pool_request
from tests.cloud.container.leasing import a_ledger, config, office, quick_inventories
from tests.cloud.container.running import Gke

KEY = f"projects/proj/locations/{REGION}/clusters/mine"


def lease() -> Lease:
    found = latest(a_ledger(), "cluster-mine_proj")
    assert found is not None
    return found


def made(gke: Gke) -> list[str]:
    """Returns what was asked for that changes something, in order."""
    return [one["method"] for one in gke.mutations()]


def refuse(planned: ClusterPlan) -> bool:
    return False


def seeing(found: Mapping[str, Nodes]) -> Inside:
    """Returns who sees these nodes in a cluster, and puts nothing into it."""

    class Seeing(Inside):
        def nodes(self, cluster: Cluster) -> Mapping[str, Nodes]:
            return found

        def ready(self, config: ClusterConfig) -> None: ...
        def set_up(self, cluster: Cluster, config: ClusterConfig) -> None: ...

    return Seeing()


def test_made_kept_and_given_back(gke: Gke) -> None:
    said: list[str] = []
    standing = create(office(said.append), "mine", config(slices=2, capacity="spot"))
    assert (standing.state, standing.lease_id, standing.expires_at) == (
        "RUNNING",
        "cluster-mine_proj-e1",
        None,
    )
    assert standing.price_per_hour == 32 * 0.60
    assert [(one.pool, one.expected, one.present, one.healthy, one.used) for one in standing.slices] == [
        ("np-0", 4, 4, 4, None),
        ("np-1", 4, 4, 4, None),
    ]
    assert gke.pools("mine") == {"cpu": "RUNNING", "np-0": "RUNNING", "np-1": "RUNNING"}
    assert [line.split(" (")[0] for line in said] == ["make cluster mine", "make pool np-0", "make pool np-1"]
    assert (lease().owner, lease().state, lease().unconfirmed) == (None, State.LIVE, False)
    assert [ref.kind for ref in lease().resources] == ["gke_cluster", "gke_node_pool", "gke_node_pool"]
    for one in gke.requests("CreateNodePool"):
        assert (
            one["request"]["node_pool"]["config"]["resource_labels"]["slicebench-lease"]
            == "cluster-mine_proj-e1"
        )
    assert [one.did for one in reap(a_ledger(), quick_inventories(a_ledger()))] == ["kept"]
    assert [ref.name for ref in delete(office(), "mine")] == ["mine", "np-0", "np-1"]
    assert (gke.inventory(), lease().state) == ([], State.GONE)
    with pytest.raises(BadInput, match="made cluster 'mine'"):
        delete(office(), "mine")
    assert create(office(), "mine", config()).lease_id == "cluster-mine_proj-e2"


def test_again_does_nothing_and_repairs_what_went_bad(gke: Gke) -> None:
    create(office(), "mine", config(slices=2))
    before = made(gke)
    create(office(), "mine", config(slices=2))
    assert made(gke) == before
    gke.spoil("mine", "np-1")
    assert describe(office(), "mine").slices[1].healthy == 0
    create(office(), "mine", config(slices=2), agree=lambda planned: not planned.disturbs)
    assert made(gke) == [*before, "DeleteNodePool", "CreateNodePool"]
    assert set(gke.pools("mine").values()) == {"RUNNING"}


def test_resized_4_8_6_with_the_idle_first(gke: Gke) -> None:
    create(office(), "mine", config(slices=4))
    assert len(resize(office(), "mine", 8).slices) == 8
    plans: list[ClusterPlan] = []
    seen = seeing({f"np-{index}": Nodes(4, 4, 0 if index in (0, 5) else 4) for index in range(8)})
    with pytest.raises(Declined):
        resize(office(inside=seen), "mine", 6, agree=refuse)
    assert len(gke.pools("mine")) == 9
    resize(office(inside=seen), "mine", 6, agree=lambda planned: plans.append(planned) or True)  # type: ignore[func-returns-value]
    assert sorted(gke.pools("mine")) == ["cpu", "np-1", "np-2", "np-3", "np-4", "np-6", "np-7"]
    assert [step.name for step in plans[0].steps] == ["np-0", "np-5"]
    assert lease().shape["slices"] == "6"
    assert {ref.name for ref in lease().resources} == {"mine", *(f"np-{n}" for n in (1, 2, 3, 4, 6, 7))}


def test_gpus_change_their_size(gke: Gke) -> None:
    wanted = config(type="l4-1", zone="us-central1-a", nodes=2)
    assert create(office(), "mine", wanted).slices[0].expected == 2
    assert resize(office(), "mine", 3).slices[0].expected == 3
    assert made(gke)[-1] == "SetNodePoolSize"
    assert resize(office(), "mine", 2).slices[0].expected == 2, "as many as it began with"
    gke.resize("mine", "np-0", 1)
    assert describe(office(), "mine").slices[0].expected == 1
    assert create(office(), "mine", wanted).slices[0].expected == 2
    gke.set(denied=["GetInstanceGroupManager"])
    with pytest.raises(
        PermissionDenied, match=r"look at the machines gke-mine-np-0-.*grant roles/compute\.viewer"
    ):
        resize(office(), "mine", 2)


def test_another_size_that_cannot_be_is_refused_in_words(gke: Gke) -> None:
    create(office(), "mine", config(type="h100-80gb-8", zone="us-central1-a", nodes=1))
    before = made(gke)
    with pytest.raises(BadInput, match="GPUDirect-TCPX.*gpu_networks: none for TCP"):
        resize(office(), "mine", 2)
    with pytest.raises(BadInput, match=r"^--nodes must be a whole number, not x$"):
        resize(office(), "mine", "x")  # type: ignore[arg-type]
    assert made(gke) == before


def test_a_lease_of_another_version_is_told_with_what_to_do(gke: Gke) -> None:
    create(office(), "mine", config())
    told = replace(lease(), shape={**lease().shape, "config": '{"zone": "us-east5-b", "colour": "blue"}'})
    a_ledger().write(told)
    with pytest.raises(
        BadInput, match="not say how it was made: unknown key 'colour', slicebench cluster create mine"
    ):
        resize(office(), "mine", 2)


def test_a_preview_changes_nothing(gke: Gke) -> None:
    create(office(), "mine", config(slices=2))
    before, generation = made(gke), lease().generation
    assert [str(step) for step in preview(office(), "mine", config(slices=3)).steps] == ["make pool np-2"]
    assert (made(gke), lease().generation) == (before, generation)
    assert len(preview(office(), "other", config(slices=3)).steps) == 4


def test_who_only_lists_needs_no_ledger(gke: Gke) -> None:
    create(office(), "mine", config(slices=0))
    nowhere = DirectoryLedger(Path("/proc/nowhere"))  # where nothing can be made
    desk = Office(container(), nowhere, the_inventories(nowhere))
    assert [(one.name, one.owner.partition(" ")[2]) for one in listing(desk)] == [
        ("mine", "(another ledger)")
    ]


@pytest.mark.parametrize(
    ("name", "fields", "words"),
    [
        ("Mine", {}, "cannot be the name of a cluster"),
        ("a" * 41, {}, "41 characters, and at most 40"),
        ("mine", {"version": "1.20"}, "version 1.20 is none of the channel regular"),
        ("mine", {"pool_fields": {"config.spott": "1"}}, "did you mean 'spot'"),
        ("mine", {"cluster_fields": {"nope": "1"}}, "has no field 'nope'"),
        ("mine", {"zone": "us-east9-a"}, "locations/us-east9"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_made(
    gke: Gke, name: str, fields: dict[str, Any], words: str
) -> None:
    with pytest.raises(Exception, match=words):
        create(office(), name, config(**fields))
    assert (made(gke), a_ledger().listing().leases) == ([], ()) or lease().state is State.GONE


def test_a_cluster_that_was_there_keeps_what_is_not_ours(gke: Gke) -> None:
    key = gke.put("mine", pools=[{"name": "default-pool", "config": {"machine_type": "e2-standard-4"}}])
    create(office(), "mine", config(slices=2))
    assert [one.pool for one in describe(office(), "mine").slices] == ["default-pool", "np-0", "np-1"]
    assert [ref.name for ref in delete(office(), "mine")] == ["np-0", "np-1"]
    assert gke.inventory() == [key, f"{key}/nodePools/default-pool"]


def test_what_another_made_is_left_alone(gke: Gke) -> None:
    gke.put(
        "mine", labels={"slicebench-lease": "x-e1", "slicebench-ledger": "another", "slicebench-owner": "bob"}
    )
    with pytest.raises(BadInput, match="made by bob's lease x-e1"):
        create(office(), "mine", config())
    gke.vanish("mine")
    gke.put("mine", pools=[pool_request("np-0")])
    with pytest.raises(BadInput, match="node pool np-0 of mine is there"):
        create(office(), "mine", config())
    gke.vanish("mine")
    gke.put("mine", location="us-west4", zones=["us-west4-a"])
    with pytest.raises(BadInput, match="is in us-west4, and not where us-east5-b is"):
        create(office(), "mine", config())
    gke.put("mine", location="us-central1", zones=["us-central1-a"])
    with pytest.raises(BadInput, match="several clusters mine: in us-central1, us-west4"):
        describe(office(), "mine")
    assert made(gke) == []


def test_somebody_else_s_operation_is_waited_for(gke: Gke) -> None:
    create(office(), "mine", config())
    gke.set(slow={"SET_LABELS": 0.3})
    container().set_labels(REGION, "mine", lambda labels: {**labels, "theirs": "1"})
    assert len(resize(office(), "mine", 2).slices) == 2


def test_lost_replies_change_nothing(gke: Gke) -> None:
    for method in ("CreateCluster", "CreateNodePool", "DeleteNodePool", "DeleteCluster"):
        gke.fault(method, "lose_reply")
    create(office(), "mine", config(slices=2))
    resize(office(), "mine", 1)
    delete(office(), "mine")
    assert gke.inventory() == []
    assert [one for one in made(gke) if one.startswith("Create")] == [
        "CreateCluster",
        *["CreateNodePool"] * 2,
    ]


def test_several_reservations_are_filled_in_order(gke: Gke) -> None:
    gke.set(reservations={"a": 4, "projects/p/reservations/b": 8})
    wanted = config(slices=3, reservations=["a", "projects/p/reservations/b"])
    create(office(), "mine", wanted)
    used = [container().pool(REGION, "mine", f"np-{index}").reservation for index in range(3)]
    assert used == ["a", "projects/p/reservations/b", "projects/p/reservations/b"]
    with pytest.raises(NotWhole, match="Insufficient reserved capacity"):
        resize(office(), "mine", 4)


def test_its_time_is_over(gke: Gke) -> None:
    create(office(), "mine", config(), ttl_s=3600.0)
    assert 3500 < (lease().expires_at or 0) - time.time() <= 3600
    resize(office(), "mine", 2)
    assert 3500 < (lease().expires_at or 0) - time.time() <= 3600
    [found] = reap(a_ledger(), quick_inventories(a_ledger()), now=lambda: time.time() + 3700)
    assert (found.did, gke.inventory()) == ("released", [])


def test_somebody_who_works_on_it_is_left_in_peace(gke: Gke) -> None:
    create(office(), "mine", config())
    holding = claim(a_ledger(), quick_inventories(a_ledger()), "cluster-mine_proj", None)
    other = holding.lease.owner
    assert other is not None
    a_ledger().write(replace(holding.lease, owner=replace(other, host="elsewhere", boot_id="other")))
    with pytest.raises(Taken, match="held by"):
        delete(office(), "mine")


def test_nodes_are_told_where_somebody_can_look_into_the_cluster(gke: Gke) -> None:
    desk = office(inside=seeing({"np-0": Nodes(4, 3, 2)}))
    create(desk, "mine", config(slices=2))
    told = describe(desk, "mine").slices
    assert [(one.present, one.healthy, one.used) for one in told] == [(4, 3, 2), (0, 0, 0)]
    gke.spoil("mine", "np-0", "RUNNING_WITH_ERROR")
    assert describe(office(), "mine").slices[0].present is None


def test_all_clusters_are_listed_whoever_made_them(gke: Gke) -> None:
    create(office(), "mine", config())
    gke.put("theirs", location="us-central1")
    assert [(one.name, bool(one.lease_id)) for one in listing(office())] == [
        ("theirs", False),
        ("mine", True),
    ]
    gke.set(denied=["ListClusters"])
    with pytest.raises(PermissionDenied):
        listing(office())
