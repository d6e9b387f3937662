"""What is looked at of a cluster by name before anything is made, and how one is made that is missing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from runtime.contract.errors import BadInput, InfrastructureError
from tasks.cloud.container import Container
from tasks.cloud.kubernetes import Kubernetes
from tasks.cloud.kubernetes_places import is_by_name, is_known_here, is_place, place_of_cluster
from tasks.cloud.labels import LEASE, labels_for
from tasks.leases.clusters import lease_name
from tasks.leases.holding import Holding
from tasks.leases.inventory import PartlyListed
from tasks.leases.jobsets import JOBSET, JobSetInventory
from tasks.leases.lease import Lease, State
from tasks.leases.queues import QUEUE
from tasks.leases.resource import ResourceRef
from tasks.targets import gke_cluster
from tasks.targets.cluster_requests import pool_request as request_of
from tasks.targets.gke import GkeTarget
from tasks.targets.kube_jobset import jobset
from tests.cloud.container.hurried import container, pool_request
from tests.cloud.container.running import Gke
from tests.tasks.targets.gke_runs import config, hold
from tests.tasks.targets.kube_made import pod_of, submission

PLACE = {"name": "mine", "location": "us-east5-b"}
SPOT = pool_request("pool", spot=True)


def found(place: Mapping[str, Any] | None = None, **fields: Any) -> list[str]:
    """Returns what is told of the cluster of a target, each with how bad that is."""
    target = gke_cluster.placed(
        config(**{"type": "v5litepod-16", "cluster": {**PLACE, **(place or {})}, **fields})
    )
    _, problems = gke_cluster.look(target, container())
    return [f"{one.severity}: {one.what}, {one.why}, {one.fix}" for one in problems]


@pytest.mark.parametrize(
    ("place", "fields", "words"),
    [
        ({"create": "never"}, {}, "there is no cluster mine in proj, and the run may not make it"),
        ({"location": "us-east5"}, {}, "us-east5 is a region, and does not say where .* add zone: us-east5-a"),
        ({"location": "us-east9-b"}, {}, "Permission denied on .*us-east9-b"),
        ({"make": {"autoprovision": 8}}, {}, "cannot be made as the target says: autoprovision takes the place"),
        ({}, {"type": "n2-standard-4-2", "slices": 2}, "each of 2 slices wants its own, , write exclusive_topology"),
        ({"make": {"cluster_fields": {"nonsense.at_all": 1}}}, {}, "nonsense"),
    ],
)  # fmt: skip
def test_one_that_is_missing_is_refused_before_it_is_made(
    gke: Gke, place: dict[str, Any], fields: dict[str, Any], words: str
) -> None:
    [told] = found(place, **fields)
    assert told.startswith("error: ") and re.search(words, told), told
    assert gke.mutations() == []


@pytest.mark.parametrize("there", [False, True])
def test_pods_that_do_not_fit_the_machines_that_are_made_are_refused_before_they_are(
    gke: Gke, there: bool
) -> None:
    if there:
        gke.put("mine", location="us-east5-b")
    place = {**PLACE, "make": {"queueing": {"install": False}}}
    for cpu, refused in (("4", True), ("3", False)):
        fields = {"type": "n2-standard-4-2", "cluster": place, "cpu": cpu}
        told = [str(one) for one in GkeTarget(config(**fields)).looked_over("n")]
        words = "does not fit machines of n2-standard-4: each pod of slice-job asks for 4 cpu"
        assert any(words in one for one in told) == refused, told
    assert gke.mutations() == []


def test_one_that_is_being_made_for_a_run_is_not_judged_by_what_it_lacks_yet(
    gke: Gke,
) -> None:
    maker = hold(lease_name("proj", "mine"))
    gke.put("mine", location="us-east5-b", labels=labels_for(maker.lease.lease_id, maker.ledger.id))
    place = {**PLACE, "make": {"queueing": {"install": False}}}
    target = GkeTarget(config(type="n2-standard-4-2", cluster=place))
    errors = lambda: [str(one) for one in target.looked_over("n") if one.severity == "error"]  # noqa: E731
    assert errors() == []
    maker.live()
    maker.detach(None)  # whole, and nobody is at it any more: now what it lacks counts
    assert errors() != []


def test_one_that_is_missing_and_can_be_made_has_nothing_against_it(gke: Gke) -> None:
    assert found() == []
    assert found({"location": "us-east5", "zone": "us-east5-b"}) == []
    made = gke_cluster.made_as(gke_cluster.placed(config(type="v5litepod-16", slices=3, cluster=PLACE)))
    assert (made.zone, made.location, made.slices, made.capacity) == ("us-east5-b", "us-east5-b", 3, "spot")
    region = {"name": "mine", "location": "us-east5", "zone": "us-east5-b", "capacity": "on_demand"}
    made = gke_cluster.made_as(gke_cluster.placed(config(type="n2-standard-4-2", cluster=region)))
    assert (made.location, made.machines, made.capacity) == ("us-east5", 2, "on_demand")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"queue": "mine"}, "is made has no queue mine"),
        ({"queue": "multislice-queue", "priority": "urgent"}, "has no priority class urgent"),
        ({"service_account": "sa"}, "has no service account sa"),
        ({}, "manifests of jobset cannot be read"),
    ],
)
def test_what_one_that_is_made_would_lack_is_told_before_it_is_made(
    fields: dict[str, Any], words: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLICEBENCH_HOME", str(tmp_path / "home"))
    manifests = {"version": "v0.12.0", "manifests": str(tmp_path / "jobset.yaml")}
    place = {**PLACE, "project": "proj", "make": {"queueing": {"jobset": manifests}}}
    told = gke_cluster.lacking_once_made(gke_cluster.placed(config(cluster=place, **fields)))
    assert any(re.search(words, one.what) for one in told), told


@pytest.mark.parametrize(
    ("state", "labels", "place", "words"),
    [
        ("ERROR", {}, {}, "error: cluster mine in us-east5 is ERROR, .*name another cluster"),
        ("ERROR", {"slicebench-lease": "a-e1", "slicebench-ledger": "l"}, {}, "slicebench cluster delete mine"),
        ("STOPPING", {}, {}, "error: cluster mine in us-east5 is STOPPING"),
        ("STOPPING", {"slicebench-lease": "a-e1", "slicebench-ledger": "l"}, {}, "warning: .* the run waits"),
        ("RUNNING", {}, {"create": "never"}, "error: .* has 0 of the 1 node pools of v5litepod-16 .* pods would wait"),
        ("RUNNING", {}, {}, "warning: .* has 0 of the 1 node pools .* what is missing by then is made for the run"),
        ("PROVISIONING", {}, {}, "^$"),
    ],
)  # fmt: skip
def test_what_a_cluster_that_is_there_lacks_is_told(
    gke: Gke, state: str, labels: dict[str, str], place: dict[str, Any], words: str
) -> None:
    key = gke.put("mine", labels=labels)
    with gke.store.changing() as world:
        world["clusters"][key]["status"] = state
    told = "; ".join(found(place))
    assert re.search(words, told), told


def test_capacity_counts_where_it_is_said(gke: Gke) -> None:
    gke.put("mine", pools=[SPOT])
    assert found() == []
    assert found({"capacity": "spot", "create": "never"}) == []
    assert "pool: it is spot, not on_demand" in str(found({"capacity": "on_demand", "create": "never"}))


def test_pods_that_would_not_act_by_workload_identity_are_warned_of(gke: Gke) -> None:
    key = gke.put("mine", pools=[SPOT])
    with gke.store.changing() as world:
        spec = world["clusters"][key]["spec"]
        spec["workload_identity_config"] = {"workload_pool": "proj.svc.id.goog"}
    [told] = found()
    assert "has Workload Identity, and pods on the networks of their hosts act as the nodes' account" in told
    assert told.startswith("warning: ")
    assert found(service_account="sa") == found(host_network=False) == []


def test_who_may_not_look_is_told_how_to_be_let(gke: Gke) -> None:
    gke.set(denied=["ListClusters"])
    assert "roles/container.developer" in str(found())


@pytest.fixture
def holding(gke: Gke, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Holding:
    monkeypatch.setenv("SLICEBENCH_HOME", str(tmp_path / "home"))
    return hold("run-1")


def test_jobsets_are_gone_with_their_cluster_and_only_when_gke_says_so(gke: Gke, holding: Holding) -> None:
    """A cluster that is deleted, or another of its name, is proof; no answer, no right and no address are none."""
    gke.put("mine", location="us-east5-b")
    place = place_of_cluster("proj", "us-east5-b", "mine")
    assert place == "cluster mine of proj in us-east5-b"
    scope = place.replace("mine", "mine#0a1b2c3d") + "/default"
    assert is_place(scope) and is_by_name(scope) and is_known_here(scope)
    assert not is_by_name("context cluster/default")
    ref = holding.create(JOBSET, scope, "x", lambda: "uid")
    inventory = JobSetInventory(holding.ledger)
    assert (
        inventory.get(ref) is None and inventory.list(holding.lease.lease_id) == []
    )  # another cluster by now
    unsigned = ResourceRef(JOBSET, f"{place}/default", "x", "uid")
    with gke.store.changing() as world:
        world["clusters"][next(iter(world["clusters"]))]["status"] = "STOPPING"
    with pytest.raises(InfrastructureError, match="cluster mine is being deleted"):
        inventory.get(unsigned)
    gke.set(denied=["GetCluster"])
    for look in (inventory.get, lambda one: inventory.delete(one, force=True)):
        with pytest.raises(InfrastructureError, match="permission"):
            look(ref)
    with pytest.raises(PartlyListed, match="cluster mine#0a1b2c3d of proj in us-east5-b"):
        inventory.list(holding.lease.lease_id)
    gke.set(denied=[])
    gke.vanish("mine")
    assert inventory.get(unsigned) is None
    inventory.delete(unsigned, force=True)


def test_a_stand_in_is_not_given_our_login_for_a_server_elsewhere(gke: Gke) -> None:
    from tasks.cloud.kubernetes_gke import access_of

    gke.put("mine")
    with pytest.raises(BadInput, match="is not on this machine"):
        access_of(Container("proj").cluster("us-east5", "mine"))


def test_who_waits_in_no_queue_gets_onto_machines_that_were_added_with_one() -> None:
    def nobody() -> Kubernetes:
        raise AssertionError("there is nothing to ask the cluster about")

    queue = ResourceRef(QUEUE, "cluster mine of p in z/default", "sb-r-e1", uid="sb-r-e1")
    lease = Lease("r-e1", "r", "r", 1, None, State.LIVE, 0.0, None, (queue,))
    run = cast(Holding, SimpleNamespace(lease=lease, ledger=SimpleNamespace(read=nobody)))
    target = config(type="v5litepod-16", queue=None, cluster={**PLACE, "project": "p"}, tolerations="theirs")
    led = gke_cluster.led_to_its_queue(target, run, nobody)
    made = jobset(led, submission())
    assert "labels" not in made["metadata"] or "queue" not in str(made["metadata"]["labels"])
    tolerated = {one["key"] for one in pod_of(made)["spec"]["tolerations"]}
    like = gke_cluster.made_as(target)
    assert like.shape is not None
    taints = request_of("np-0", like, like.shape, {LEASE: "r-e1"}, apart=True)["config"]["taints"]
    assert {one["key"] for one in taints} | {"theirs"} <= tolerated
    alone = cast(
        Holding,
        SimpleNamespace(
            lease=Lease("r-e1", "r", "r", 1, None, State.LIVE, 0.0, None), ledger=SimpleNamespace(read=nobody)
        ),
    )
    assert gke_cluster.led_to_its_queue(target, alone, nobody) is target
