"""What pods take of nodes, and whether the nodes of a cluster, or the quota of its queue, could ever be enough."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from tasks.targets.kube_asked import asked_by, taken_by
from tasks.targets.kube_beyond import beyond
from tasks.targets.kube_homes import homeless
from tests.tasks.targets.kube_made import PATHWAYS, made

TPU = {
    "cloud.google.com/gke-tpu-accelerator": "tpu-v5-lite-podslice",
    "cloud.google.com/gke-tpu-topology": "4x4",
}
POOL = "cloud.google.com/gke-nodepool"
TAINT = {"key": "google.com/tpu", "value": "present", "effect": "NoSchedule"}


def node(pool: str = "np-0", labels: Mapping[str, str] = TPU, *taints: Any, **has: str) -> dict[str, Any]:
    room = {"cpu": "111500m", "memory": "180Gi", "pods": "15", "google.com/tpu": "4", **has}
    return {
        "metadata": {"name": f"{pool}-x", "labels": {POOL: pool, **labels}},
        "spec": {"taints": list(taints)},
        "status": {"allocatable": room},
    }


def slices(number: int, **has: str) -> list[dict[str, Any]]:
    return [node(f"np-{index}", TPU, TAINT, **has) for index in range(number) for _ in range(4)]


@pytest.mark.parametrize(
    ("spec", "takes"),
    [
        ({"containers": [{"resources": {"limits": {"cpu": "500m", "x/y": "1"}}}] * 2}, {"cpu": 1, "x/y": 2}),
        ({"containers": [{"resources": {"limits": {"memory": "1Gi"}}}]}, {"memory": 2**30}),
        ({"containers": [{"resources": {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}}]}, {"cpu": 1}),
        ({"containers": [{}]}, {}),
        (
            {
                "initContainers": [
                    {"restartPolicy": "Always", "resources": {"limits": {"cpu": "1"}}},
                    {"resources": {"limits": {"cpu": "3"}}},
                ],
                "containers": [{"resources": {"limits": {"cpu": "2"}}}],
            },
            {"cpu": 4},
        ),
    ],
)  # fmt: skip
def test_a_pod_takes_its_containers_and_sidecars_or_its_largest_beginning(
    spec: dict[str, Any], takes: dict[str, float]
) -> None:
    assert dict(taken_by({"spec": spec})) == takes


@pytest.mark.parametrize(
    ("fields", "nodes", "words"),
    [
        ({}, slices(2), ""),
        ({}, slices(1), "slice-job needs 2 values of cloud.google.com/gke-nodepool with room for 4 pods, .* for 1"),
        ({}, [node(labels={}, cpu="8")], "no node has cloud.google.com/gke-tpu-accelerator=tpu-v5-lite-podslice"),
        ({"memory": "200GiB"}, slices(2), "asks for 200 GiB of memory, and the largest node for it has 180 GiB"),
        ({"memory": "200GiB"}, [*slices(2), *slices(3, memory="240Gi")], ""),
        ({"cpu": "111.6"}, slices(2), "asks for 111.6 cpu, and the largest node for it has 111.5 cpu"),
        ({}, slices(2, **{"google.com/tpu": "0"}), ""),  # its device plugin is not up yet
        ({}, slices(1, **{"google.com/tpu": "0"}), "room for 4 pods, and there are nodes for 1"),
        ({}, slices(2, **{"google.com/tpu": "3"}), "asks for 4 google.com/tpu, .* has 3 google.com/tpu"),
        ({"slices": 1}, [node("np-0", TPU, TAINT, {"key": "theirs", "effect": "NoSchedule"})] * 4, "taints .*theirs"),
        ({"slices": 1, "tolerations": "theirs"}, [node("a", TPU, {"key": "theirs", "effect": "NoSchedule"})] * 4, ""),
        ({"slices": 1}, [node("a", TPU, {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"})] * 4, ""),
        ({"slices": 1}, [node("a", TPU, {"key": "theirs", "effect": "PreferNoSchedule"})] * 4, ""),
        ({"slices": 1, "exclusive_topology": None}, slices(1)[:3], "4 pods at once, and the 3 nodes for them hold 3"),
        ({"type": "cpu", "nodes": 6, "slices": 1, "cpu": "4"}, [node(cpu="8"), node(cpu="17")], ""),
        ({"type": "cpu", "nodes": 7, "slices": 1, "cpu": "4"}, [node(cpu="8"), node(cpu="17")], "7 pods .* hold 6"),
        ({"type": "cpu", "nodes": 31, "slices": 1}, [node(), node()], "31 pods at once, and the 2 nodes .* hold 30"),
        ({"type": "gpu-8", "slices": 1}, [node(labels={})], "asks for 8 nvidia.com/gpu, .* has 0 nvidia.com/gpu"),
        (
            {"type": "n2-standard-32-2", "slices": 1, "cpu": "4"},
            [node("a", {"node.kubernetes.io/instance-type": "n2-standard-32"})],
            "2 values|room for 2 pods",
        ),
        (
            {"cluster": {"name": "c", "location": "us-east5-b", "capacity": "on_demand"}, "slices": 1},
            [node("np-0", {**TPU, "cloud.google.com/gke-spot": "true"}, TAINT)] * 4,
            "no node has cloud.google.com/gke-tpu",
        ),
        (
            {"slices": 1, "pathways": {**PATHWAYS, "head_node_pool": "cpu-np"}},
            [*slices(1), node("cpu-np", {}, cpu="16", memory="60Gi")],
            "each pod of pathways-head asks for 48 cpu, and the largest node for it has 16 cpu",
        ),
    ],
)  # fmt: skip
def test_nodes_that_could_never_hold_all_pods_are_told(
    fields: dict[str, Any], nodes: list[dict[str, Any]], words: str
) -> None:
    told = "; ".join(filter(None, (homeless(one, nodes) for one in asked_by(made(fields)))))
    assert bool(told) == bool(words), told
    assert re.search(words, told), told


def test_tolerations_that_a_queue_adds_count() -> None:
    nodes = [node("a", TPU, {"key": "theirs", "value": "v", "effect": "NoSchedule"})] * 4
    [one] = asked_by(made({"slices": 1}))
    assert homeless(one, nodes)
    assert homeless(one, nodes, [{"key": "theirs", "operator": "Exists"}]) == ""
    assert homeless(one, nodes, [{"key": "theirs", "value": "other"}])


def queue(*flavors: tuple[str, Mapping[str, str]], **spec: Any) -> dict[str, Any]:
    covered = list(flavors[0][1])
    members = [
        {"name": name, "resources": [{"name": key, "nominalQuota": most} for key, most in quota.items()]}
        for name, quota in flavors
    ]
    groups = [{"coveredResources": covered, "flavors": members}]
    return {"metadata": {"name": "cq"}, "spec": {"resourceGroups": groups, **spec}}


def flavor(labels: Mapping[str, str], **spec: Any) -> dict[str, Any]:
    return {"spec": {"nodeLabels": dict(labels), **spec}}


V5E = {"v5e": flavor(TPU, nodeTaints=[TAINT])}
OTHER = {"other": flavor({**TPU, "cloud.google.com/gke-tpu-topology": "2x2"})}
CHIPS = "google.com/tpu"


@pytest.mark.parametrize(
    ("fields", "cq", "flavors", "words"),
    [
        ({}, queue(("v5e", {CHIPS: "32"})), V5E, ""),
        ({}, queue(("v5e", {CHIPS: "31"})), V5E, "the 8 pods of slice-job ask for 32 google.com/tpu, .* has 31"),
        ({}, queue(("v5e", {CHIPS: "16"}), cohortName="all"), V5E, ""),
        ({}, queue(("other", {CHIPS: "99"}), ("v5e", {CHIPS: "16"})), {**V5E, **OTHER}, "flavor v5e has 16"),
        ({}, queue(("other", {CHIPS: "99"})), {**V5E, **OTHER}, "no flavor of it is for the 8 pods"),
        ({}, queue(("gone", {CHIPS: "99"})), {}, "no flavor of it is for"),
        ({"cpu": "8"}, queue(("v5e", {CHIPS: "32"})), V5E, "ClusterQueue cq has no quota of cpu"),
        ({"cpu": "8"}, queue(("v5e", {CHIPS: "32", "cpu": "63"})), V5E, "ask for 64 cpu, and flavor v5e has 63 cpu"),
        ({"memory": "2GiB"}, queue(("v5e", {CHIPS: "32", "memory": "15Gi"})), V5E, "16 GiB of memory, .* has 15 GiB"),
        ({}, queue(("v5e", {CHIPS: "32"})), {"v5e": flavor(TPU, nodeTaints=[{"key": "x", "effect": "NoSchedule"}])},
         "no flavor"),
        ({}, queue(("v5e", {CHIPS: "32"})), {"v5e": flavor(TPU, nodeTaints=[{"key": "x", "effect": "NoSchedule"}],
                                                            tolerations=[{"key": "x", "operator": "Exists"}])}, ""),
    ],
)  # fmt: skip
def test_quota_that_is_never_enough_is_told(
    fields: dict[str, Any], cq: dict[str, Any], flavors: dict[str, Any], words: str
) -> None:
    found = beyond(asked_by(made(fields)), cq, flavors)
    told = found.why if found else ""
    assert bool(told) == bool(words), told
    assert re.search(words, told), told
    assert (found is not None and found.uncovered) == ("no quota" in words)


def test_what_others_lend_counts_up_to_the_limit_of_borrowing() -> None:
    lent = queue(("v5e", {CHIPS: "16"}), cohortName="all")
    quota = lent["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]
    for limit, fits in (("15", False), ("16", True)):
        quota["borrowingLimit"] = limit
        assert (beyond(asked_by(made()), lent, V5E) is None) == fits


def test_pods_of_several_jobs_share_a_flavor() -> None:
    fields = {"slices": 1, "pathways": {**PATHWAYS, "head_node_pool": None}}
    both = {"any": flavor({})}
    enough = {CHIPS: "16", "cpu": "48", "memory": "232G"}
    assert beyond(asked_by(made(fields)), queue(("any", enough)), both) is None
    found = beyond(asked_by(made(fields)), queue(("any", {**enough, "cpu": "47"})), both)
    assert found is not None and "the pod of pathways-head ask for 48 cpu" in found.why
