"""From machines to the queue's objects: flavors, quota, names that stay."""

from __future__ import annotations

from typing import Any

import pytest

from tasks.cloud.container_model import Cluster, Pool
from tasks.config.accelerators import accelerator
from tasks.config.cluster import ClusterConfig
from tasks.targets.kube_queues import Names, flavors, manifests, priority_classes
from tasks.targets.kube_room import Each, Held, amount, held_in, room_of

CPU = "e2-standard-16"
GI = 2**30
ROOM = {
    CPU: Each(15, 58 * GI),
    "ct5lp-hightpu-4t": Each(110, 180 * GI),
    "ct6e-standard-4t": Each(170, 700 * GI),
}


def held(name: str, machines: int, **more: Any) -> Held:
    return Held(accelerator(name), machines, **more)


def common(machines: int) -> Held:
    return held(f"{CPU}-1", machines, common=True)


TPU, TOPOLOGY, GPU = (
    f"cloud.google.com/gke-{one}" for one in ("tpu-accelerator", "tpu-topology", "accelerator")
)
V5E, V5P, V6E = "tpu-v5-lite-podslice", "tpu-v5p-slice", "tpu-v6e-slice"


@pytest.mark.parametrize(
    ("machines", "name", "labels", "amounts"),
    [
        ([held("v5litepod-16", 8)], "v5e-4x4", {TPU: V5E, TOPOLOGY: "4x4"}, {"google.com/tpu": 32}),
        ([held("v5litepod-16", 0)], "v5e-4x4", {TPU: V5E, TOPOLOGY: "4x4"}, {"google.com/tpu": 0}),
        ([held("v5p-128", 32)], "v5p-4x4x4", {TPU: V5P, TOPOLOGY: "4x4x4"}, {"google.com/tpu": 128}),
        (
            [held("v6e-8", 2), held("ct6e-standard-8t", 3)],
            "v6e-2x4",
            {TPU: V6E, TOPOLOGY: "2x4"},
            {"google.com/tpu": 32},
        ),
        ([held("v6e-8", 2, any_topology=True)], "v6e", {TPU: V6E}, {"google.com/tpu": 8}),
        ([held("l4-2", 3)], "nvidia-l4", {GPU: "nvidia-l4"}, {"nvidia.com/gpu": 6}),
    ],
)
def test_a_flavor_is_named_after_its_kind_and_counts_its_chips(
    machines: list[Held], name: str, labels: dict[str, str], amounts: dict[str, int]
) -> None:
    first, rest = flavors([*machines, common(2)], ROOM, None, None)
    counted = {key: value for key, value in first.amounts.items() if key not in ("cpu", "memory")}
    assert (first.name, counted) == (name, amounts)
    assert first.node_labels == labels
    assert (rest.name, dict(rest.node_labels), rest.taint) == ("machines", {}, "")


@pytest.mark.parametrize(
    ("limits", "tpus", "cpus"),
    [
        ((None, None), {"cpu": 880, "memory": 8 * 180 * GI}, {"cpu": 30, "memory": 116 * GI}),
        ((32, GI), {"cpu": 32, "memory": GI}, {"cpu": 30, "memory": GI}),
        ((10_000, 2**50), {"cpu": 880, "memory": 8 * 180 * GI}, {"cpu": 30, "memory": 116 * GI}),
    ],
)
def test_each_kind_of_machine_has_its_own_processors_and_memory(
    limits: tuple[int | None, int | None], tpus: dict[str, int], cpus: dict[str, int]
) -> None:
    found = flavors([held("v5litepod-16", 8), common(2)], ROOM, *limits)
    assert [dict(one.amounts) for one in found] == [{"google.com/tpu": 32, **tpus}, cpus]


def test_machines_that_nobody_has_seen_are_limited_by_their_chips_alone() -> None:
    (one,) = flavors([held("v5litepod-16", 8)], {}, None, None)
    assert one.amounts["google.com/tpu"] == 32
    assert one.amounts["cpu"] > 10**6
    assert flavors([held("v5litepod-16", 8)], {}, 64, None)[0].amounts["cpu"] == 64


def test_several_kinds_without_chips_are_told_apart_by_their_type() -> None:
    room = {**ROOM, "n2-standard-32": Each(31, 120 * GI)}
    found = flavors([held("n2-standard-32-1", 4), common(2)], room, None, None)
    label = "node.kubernetes.io/instance-type"
    assert [(one.name, one.node_labels, one.amounts["cpu"]) for one in found] == [
        ("n2-standard-32", {label: "n2-standard-32"}, 124),
        ("machines", {label: CPU}, 30),
    ]


def test_the_queue_has_one_group_where_every_flavor_has_a_quota_of_every_resource() -> None:
    """Kueue wants all of a group's resources with each flavor, and each resource in one group."""
    kinds = [held("v5litepod-16", 8), held("v6e-16", 4), held("l4-2", 3), common(2)]
    made = manifests(flavors(kinds, ROOM, None, None), "team")
    assert [(kind.name, one["metadata"]["name"]) for kind, one in made] == [
        ("ResourceFlavor", "v5e-4x4"), ("ResourceFlavor", "v6e-4x4"), ("ResourceFlavor", "nvidia-l4"),
        ("ResourceFlavor", "machines"), ("ClusterQueue", "cluster-queue"), ("LocalQueue", "multislice-queue"),
    ]  # fmt: skip
    queue = made[-2][1]["spec"]
    assert queue["namespaceSelector"] == {}
    assert queue["preemption"]["withinClusterQueue"] == "LowerPriority"
    (group,) = queue["resourceGroups"]
    assert group["coveredResources"] == ["google.com/tpu", "cpu", "memory", "nvidia.com/gpu"]
    for one in group["flavors"]:
        assert [each["name"] for each in one["resources"]] == group["coveredResources"]
    chips = {one["name"]: (one["resources"][0]["nominalQuota"], one["resources"][3]["nominalQuota"])
             for one in group["flavors"]}  # fmt: skip
    assert chips == {
        "v5e-4x4": ("32", "0"),
        "v6e-4x4": ("16", "0"),
        "nvidia-l4": ("0", "6"),
        "machines": ("0", "0"),
    }
    assert made[-1][1]["metadata"]["namespace"] == "team"


def test_what_asks_for_no_chips_does_not_get_to_machines_that_have_them() -> None:
    made = manifests(flavors([held("v5litepod-16", 8), held("l4-2", 3), common(2)], ROOM, None, None), "team")
    taints = [one["spec"].get("nodeTaints", []) for kind, one in made if kind.name == "ResourceFlavor"]
    assert [[taint["key"] for taint in one] for one in taints] == [["google.com/tpu"], ["nvidia.com/gpu"], []]


def test_a_queue_may_have_other_names_and_nodes_of_its_own() -> None:
    names = Names("mine", "mine", "mine-", {"whose": "mine"}, {"on": "mine"}, "past")
    flavor, queue, local = (
        one for _, one in manifests(flavors([held("v5litepod-16", 8)], ROOM, None, None), "team", names)
    )
    assert flavor["metadata"] == {"name": "mine-v5e-4x4", "labels": {"whose": "mine"}}
    assert flavor["spec"]["nodeLabels"]["on"] == "mine"
    assert flavor["spec"]["tolerations"] == [{"key": "past", "operator": "Exists", "effect": "NoSchedule"}]
    assert queue["spec"]["resourceGroups"][0]["flavors"][0]["name"] == "mine-v5e-4x4"
    assert local["spec"] == {"clusterQueue": "mine"}


def test_machines_that_are_placed_near_each_other_have_a_topology() -> None:
    made = manifests(flavors([held("h100-mega-80gb-8", 2), common(2)], ROOM, None, None), "default")
    assert made[0][0].name == "Topology"
    assert [one["nodeLabel"] for one in made[0][1]["spec"]["levels"]][-1] == "kubernetes.io/hostname"
    assert [one["spec"].get("topologyName") for kind, one in made if kind.name == "ResourceFlavor"] == [
        "gke-default", None,
    ]  # fmt: skip


def pool(name: str, machine: str, size: int, state: str = "RUNNING", **more: Any) -> Pool:
    return Pool("p", "l", "c", name, f"c/{name}", state, machine, size, ("z",), **more)


def test_pools_that_work_count_whoever_made_them() -> None:
    pools = (
        pool("cpu", "e2-standard-16", 3),
        pool("np-0", "ct5lp-hightpu-4t", 4, topology="4x4"),
        pool("np-1", "ct5lp-hightpu-4t", 4, topology="4x4"),
        pool("np-2", "ct5lp-hightpu-4t", 4, "ERROR", topology="4x4"),
        pool("single", "ct6e-standard-8t", 1),
        pool("flex", "ct6e-standard-4t", 0, topology="4x4", autoscaled=True, most=4),
        pool("gpus", "g2-standard-24", 3, accelerator="nvidia-l4", accelerators=2),
        pool("odd", "ct99-hightpu-4t", 3),
    )
    cluster = Cluster("p", "l", "c", "u", "RUNNING", pools)
    found = [
        (one.shape.label or one.shape.machine_type, one.shape.topology, one.machines)
        for one in held_in(cluster)
    ]
    assert found == [
        (CPU, "", 3), (V5E, "4x4", 8), (V6E, "2x4", 1), (V6E, "4x4", 4), ("nvidia-l4", "", 3),
    ]  # fmt: skip
    assert [one.common for one in held_in(cluster)] == [True, False, False, False, False]


def test_what_gke_may_add_by_itself_counts() -> None:
    config = ClusterConfig.model_validate(
        {"zone": "us-east5-b", "type": "v5litepod-16", "slices": 0, "autoprovision": 64}
    )
    (one,) = held_in(Cluster("p", "l", "c", "u", "RUNNING", ()), config)
    assert (one.machines, one.any_topology) == (16, True)
    (flavor,) = flavors([one], {}, None, None)
    assert (flavor.name, flavor.amounts["google.com/tpu"], flavor.node_labels) == ("v5e", 64, {TPU: V5E})


def node(pool: str, cpu: str, memory: str, kind: str = "e2-standard-16") -> dict[str, Any]:
    labels = {"cloud.google.com/gke-nodepool": pool, "node.kubernetes.io/instance-type": kind}
    return {"metadata": {"labels": labels}, "status": {"allocatable": {"cpu": cpu, "memory": memory}}}


def test_room_is_what_the_least_node_of_a_type_has() -> None:
    tpu = "ct5lp-hightpu-4t"
    nodes = [
        node("cpu", "15890m", "58Gi"),
        node("np-0", "110", "180Gi", tpu),
        node("np-1", "109500m", "190Gi", tpu),
    ]
    assert room_of([*nodes, node("np-1", "0", "0", tpu)]) == {
        CPU: Each(15, 58 * GI),
        tpu: Each(109, 180 * GI),
    }


@pytest.mark.parametrize(
    ("quantity", "number"),
    [("15890m", 15.89), ("4", 4), ("58Gi", 58 * 2**30), ("3k", 3000), (7, 7), ("odd", 0)],
)
def test_amounts_are_read(quantity: object, number: float) -> None:
    assert amount(quantity) == pytest.approx(number)


def test_priorities_are_those_of_xpk() -> None:
    values = {one["metadata"]["name"]: one["value"] for _, one in priority_classes()}
    assert values == {"very-low": 100, "low": 250, "medium": 500, "high": 750, "very-high": 1000}
