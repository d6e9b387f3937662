"""What Compute Engine gives clusters: workload policies that come and go with them, and a word on what zones lack."""

from __future__ import annotations

import re
from typing import Any

import pytest

from runtime.contract.errors import BadInput
from tasks.cloud.compute import Compute
from tasks.cloud.container_errors import AlreadyExists, Disabled, PermissionDenied, Refused
from tasks.config.gke_target import GkeTargetConfig
from tasks.leases.lease import State
from tasks.stages.clusters import create, delete, preview, resize
from tasks.targets.gke_cluster import look
from tests.cloud.container.hurried import QUICK, container
from tests.cloud.container.leasing import a_ledger, config, office
from tests.cloud.container.running import Gke

ZONE, POLICY = "us-east5-a", "sb-cluster-mine-proj-e1-2x2x2"
LABELS = {"slicebench-lease": "a-e1", "slicebench-ledger": "l"}


def ironwood(**fields: Any) -> Any:
    return config(type="tpu7x-16", zone=ZONE, **fields)


def made(gke: Gke) -> list[str]:
    return [one["method"] for one in gke.mutations() if one["outcome"] == "OK"]


def test_a_workload_policy_comes_before_the_cluster_and_goes_after_it(gke: Gke) -> None:
    steps = [str(step) for step in preview(office(), "mine", ironwood(slices=2)).steps]
    assert steps[0] == "make policy 2x2x2 (hosts of tpu7x-16 are placed by one)"
    create(office(), "mine", ironwood(slices=2))
    assert made(gke) == ["InsertResourcePolicy", "CreateCluster", "CreateNodePool", "CreateNodePool"]
    [asked] = gke.requests("InsertResourcePolicy")
    assert asked["request"]["name"] == POLICY
    assert asked["request"]["workloadPolicy"] == {
        "type": "HIGH_THROUGHPUT",
        "acceleratorTopology": "2x2x2",
    }
    pool = gke.requests("CreateNodePool")[0]["request"]["node_pool"]
    assert pool["placement_policy"] == {"policy_name": POLICY, "tpu_topology": "2x2x2"}
    resize(office(), "mine", 3)
    assert made(gke)[4:] == ["CreateNodePool"]
    gone = [ref.kind for ref in delete(office(), "mine")]
    assert gone.count("gce_resource_policy") == 1 and gone.count("gke_cluster") == 1
    assert made(gke)[5:] == ["DeleteCluster", "DeleteResourcePolicy"]
    assert gke.inventory() == []


def test_one_that_is_named_is_used_and_stays(gke: Gke) -> None:
    beside = Compute("proj", timing=QUICK)
    beside.create_policy("us-east5", "theirs", "2x2x2", {})
    create(office(), "mine", ironwood(placement_policy="theirs"))
    delete(office(), "mine")
    assert gke.inventory() == ["proj/us-east5/theirs"]


def test_a_host_alone_needs_none(gke: Gke) -> None:
    create(office(), "mine", config(type="tpu7x-8", zone=ZONE))
    assert made(gke) == ["CreateCluster", "CreateNodePool"]


@pytest.mark.parametrize(
    "settings", [{"denied": ["InsertResourcePolicy"]}, {"failing_policies": "quota exceeded"}]
)
def test_a_policy_that_cannot_be_made_costs_no_cluster(gke: Gke, settings: dict[str, Any]) -> None:
    gke.set(**settings)
    words = settings.get("failing_policies", "InsertResourcePolicy")
    with pytest.raises(Exception, match=words):
        create(office(), "mine", ironwood())
    assert gke.inventory() == []
    assert "CreateCluster" not in made(gke)
    [lease] = a_ledger().listing().leases
    assert lease.state is State.GONE


@pytest.mark.parametrize("action", ["lose_reply", "stall"])
def test_a_lost_reply_makes_one_policy(gke: Gke, action: str) -> None:
    gke.fault("InsertResourcePolicy", action, seconds=0.5)
    gke.fault("DeleteResourcePolicy", action, seconds=0.5)
    create(office(), "mine", ironwood())
    delete(office(), "mine")
    assert gke.inventory() == []


def test_what_is_not_ours_is_left_alone(gke: Gke) -> None:
    beside = Compute("proj", timing=QUICK)
    theirs = beside.create_policy("us-east5", POLICY, "2x2x2", LABELS)
    assert beside.create_policy("us-east5", POLICY, "2x2x2", LABELS) == theirs
    with pytest.raises(AlreadyExists, match="made by somebody else"):
        create(office(), "mine", ironwood())
    assert gke.inventory() == [f"proj/us-east5/{POLICY}"]
    assert beside.policies() == [theirs]
    beside.delete_policy("us-east5", POLICY)
    beside.delete_policy("us-east5", POLICY)
    assert beside.policies() == []


def test_one_that_is_in_use_is_not_deleted(gke: Gke) -> None:
    create(office(), "mine", ironwood())
    with pytest.raises(Refused, match="already being used"):
        Compute("proj", timing=QUICK).delete_policy("us-east5", POLICY)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (
            {"type": "v4-16", "zone": "us-central2-b"},
            "CPU machines of e2-standard-16 are not to be had in us-central2-b.*--cpu-machine-type n2-standard-16",
        ),
        (
            {"zone": "us-east5-a"},
            r"ct5lp-hightpu-4t \(v5litepod-16\) are not to be had in us-east5-a.*there are in us-east5-b",
        ),
        ({"zone": "us-west4-a", "type": "v6e-16"}, "no zone of us-west4 has them"),
        ({"zone": "us-east5-x"}, "there is no zone us-east5-x in us-east5.*us-east5-a, us-east5-b"),
        ({"reservations": "gone"}, "there is no reservation gone in us-east5-b"),
        (
            {"type": "l4-1", "zone": "us-central1-a", "cpu_pool": {"machine_type": "m1-megamem-96"}},
            "m1-megamem-96 are not to be had in us-central1-b, us-central1-f.*n2-standard-16, or --zonal|--zonal",
        ),
    ],
)
def test_what_zones_lack_is_said_before_anything_is_made(
    gke: Gke, fields: dict[str, Any], words: str
) -> None:
    with pytest.raises(BadInput, match=words):
        create(office(), "mine", config(**fields))
    assert (made(gke), a_ledger().listing().leases) == ([], ())


def test_networks_of_gpus_come_with_the_pool_and_are_missed(gke: Gke) -> None:
    wanted = {"type": "h200-141gb-8", "zone": "us-central1-a", "nodes": 2}
    with pytest.raises(
        BadInput, match="from 1.34.1-gke.1829001 on, and 1.32.9-gke.1130000 is older.*--channel rapid"
    ):
        create(office(), "mine", config(**wanted))
    with pytest.raises(BadInput, match="--version 1.34.1-gke.2037000"):
        create(office(), "mine", config(channel="rapid", **wanted))
    assert made(gke) == []
    create(office(), "mine", config(gpu_networks="none", **wanted))
    newer = config(channel="rapid", version="1.34", **wanted)
    [step] = preview(office(), "mine", newer).steps
    assert str(step) == "replace pool np-0 (its GPUs have no networks to those of other hosts)"
    create(office(), "mine", newer)
    asked = gke.requests("CreateNodePool")[-1]["request"]["node_pool"]
    assert asked["network_config"] == {"accelerator_network_profile": "auto"}
    assert preview(office(), "mine", newer).steps == ()


def test_who_may_not_ask_is_told_so_and_goes_on(gke: Gke) -> None:
    gke.set(denied=["GetRegion"])
    said: list[str] = []
    create(office(said.append), "mine", config())
    assert "whether us-east5-b has what is asked for is not known" in said[0]
    with pytest.raises(PermissionDenied, match=": grant roles/compute.viewer"):
        Compute("proj", timing=QUICK).zones("us-east5")
    with pytest.raises(Disabled, match="gcloud services enable compute.googleapis.com"):
        Compute("elsewhere", timing=QUICK).zones("us-east5")


CENTRAL = {"location": "us-central1", "zone": "us-central1-a"}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"type": "v6e-16", "cluster": {"location": "us-west4-a"}}, "no zone of us-west4 has them"),
        ({"cluster": {"make": {"version": "1.20"}}}, "version 1.20 is none of the channel regular"),
        (
            {"cluster": {"make": {"cpu_pool": {"machine_type": "m1-megamem-96"}}}},
            "m1-megamem-96 are not to be had",
        ),
        ({"cluster": {"make": {"pool_fields": {"config.spott": True}}}}, "did you mean 'spot'"),
        ({"cluster": {"make": {"max_run": "8d"}, "capacity": "flex_start"}}, "7d at most"),
        (
            {"type": "h100-80gb-8", "nodes": 2, "gpu_networks": list("abcd"), "cluster": CENTRAL},
            "has none of the networks that gpu_networks names",
        ),
    ],
)
def test_a_run_is_told_as_well_before_it_makes_its_cluster(
    gke: Gke, fields: dict[str, Any], words: str
) -> None:
    place = {"name": "mine", "project": "proj", "location": "us-east5-b", **fields.get("cluster", {})}
    target = GkeTargetConfig.model_validate(
        {"kind": "gke", "type": "v5litepod-16", **fields, "cluster": place}
    )
    there, problems = look(target, container())
    assert there is None
    assert re.search(words, "; ".join(str(one) for one in problems if one.severity == "error")), problems
