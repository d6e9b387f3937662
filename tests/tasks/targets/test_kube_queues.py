"""From machines to the queue's objects: flavors, quota, names that stay."""

from __future__ import annotations

from typing import Any

import pytest

from tasks.cloud.container_model import Cluster, Pool
from tasks.config.accelerators import accelerator
from tasks.targets.kube_queues import (
    Held,
    Room,
    amount,
    flavors,
    held_in,
    manifests,
    priority_classes,
    room_of,
)

ROOM = Room(64, 256 * 2**30)


def held(name: str, machines: int, **more: Any) -> Held:
    return Held(accelerator(name), machines, **more)


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
    first, rest = flavors(machines, ROOM, None, None)
    assert (first.name, dict(first.amounts)) == (name, amounts)
    assert first.node_labels == labels
    assert (rest.name, dict(rest.node_labels)) == ("machines", {})


@pytest.mark.parametrize(
    ("room", "limits", "amounts"),
    [
        (ROOM, (None, None), {"cpu": 64, "memory": 256 * 2**30}),
        (ROOM, (32, 2**30), {"cpu": 32, "memory": 2**30}),
        (ROOM, (832, 2**50), {"cpu": 64, "memory": 256 * 2**30}),
        (Room(), (32, None), {"cpu": 32, "memory": 0}),
    ],
)
def test_processors_are_what_there_is_or_less(
    room: Room, limits: tuple[int | None, int | None], amounts: dict[str, int]
) -> None:
    assert [dict(one.amounts) for one in flavors([], room, *limits)] == [amounts]


def test_machines_that_are_asked_for_by_type_are_a_flavor_of_processors() -> None:
    room = Room(96, 3 * 2**37, {"n2-standard-32": (62, 2**37)})
    (one,) = flavors([held("n2-standard-32-2", 2)], room, None, None)
    assert (one.name, one.amounts) == ("n2-standard-32", {"cpu": 62, "memory": 2**37})
    assert one.node_labels == {"node.kubernetes.io/instance-type": "n2-standard-32"}


def test_the_queue_covers_every_resource_once_and_leads_to_all_flavors() -> None:
    made = manifests(
        flavors([held("v5litepod-16", 8), held("v6e-16", 4), held("l4-2", 3)], ROOM, 8, None), "team"
    )
    assert [(kind.name, one["metadata"]["name"]) for kind, one in made] == [
        ("ResourceFlavor", "v5e-4x4"), ("ResourceFlavor", "v6e-4x4"), ("ResourceFlavor", "nvidia-l4"),
        ("ResourceFlavor", "machines"), ("ClusterQueue", "cluster-queue"), ("LocalQueue", "multislice-queue"),
    ]  # fmt: skip
    queue = made[-2][1]["spec"]
    assert queue["namespaceSelector"] == {}
    assert queue["preemption"]["withinClusterQueue"] == "LowerPriority"
    assert [group["coveredResources"] for group in queue["resourceGroups"]] == [
        ["google.com/tpu"], ["nvidia.com/gpu"], ["cpu", "memory"],
    ]  # fmt: skip
    tpus = queue["resourceGroups"][0]["flavors"]
    assert tpus == [
        {"name": name, "resources": [{"name": "google.com/tpu", "nominalQuota": quota}]}
        for name, quota in (("v5e-4x4", "32"), ("v6e-4x4", "16"))
    ]
    assert made[-1][1]["metadata"]["namespace"] == "team"


def test_machines_that_are_placed_near_each_other_have_a_topology() -> None:
    made = manifests(flavors([held("h100-mega-80gb-8", 2)], ROOM, None, None), "default")
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
    found = held_in(Cluster("p", "l", "c", "u", "RUNNING", pools))
    assert [(one.flavor, one.machines, one.shape.chips_per_host) for one in found] == [
        ("v5e-4x4", 8, 4), ("v6e-2x4", 1, 8), ("v6e-4x4", 4, 4), ("nvidia-l4", 3, 2),
    ]  # fmt: skip


def node(pool: str, cpu: str, memory: str, kind: str = "e2-standard-16") -> dict[str, Any]:
    labels = {"cloud.google.com/gke-nodepool": pool, "node.kubernetes.io/instance-type": kind}
    return {"metadata": {"labels": labels}, "status": {"allocatable": {"cpu": cpu, "memory": memory}}}


def test_room_is_what_nodes_have_and_may_come_to_have() -> None:
    nodes = [node("cpu", "15890m", "58Gi"), node("np-0", "110", "180Gi", "ct5lp-hightpu-4t")]
    found = room_of(nodes, {"cpu": 3, "none": 5})
    assert (found.cpus, found.memory) == (15 * 3 + 110, (58 * 3 + 180) * 2**30)
    assert found.by_type["ct5lp-hightpu-4t"] == (110, 180 * 2**30)


@pytest.mark.parametrize(
    ("quantity", "number"),
    [("15890m", 15.89), ("4", 4), ("58Gi", 58 * 2**30), ("3k", 3000), (7, 7), ("odd", 0)],
)
def test_amounts_are_read(quantity: object, number: float) -> None:
    assert amount(quantity) == pytest.approx(number)


def test_priorities_are_those_of_xpk() -> None:
    values = {one["metadata"]["name"]: one["value"] for _, one in priority_classes()}
    assert values == {"very-low": 100, "low": 250, "medium": 500, "high": 750, "very-high": 1000}
