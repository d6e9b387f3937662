"""The queue that workloads of a cluster wait in, as Kueue's objects: from its machines alone. Pure.

A flavor is a kind of slice, named after it for as long as there are any: how many there are is the quota of the
ClusterQueue, so that adding slices renames nothing that workloads already run under. Processors and memory are a group
of their own: what asks for them beside chips is not held to the machines that the chips are on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runtime.contract.errors import BadInput
from tasks.cloud.container_model import Cluster, Pool
from tasks.cloud.kubernetes_kinds import (
    CLUSTER_QUEUE,
    LOCAL_QUEUE,
    PRIORITY_CLASS,
    RESOURCE_FLAVOR,
    TOPOLOGY,
    Kind,
    Object,
)
from tasks.config.accelerators import TOPOLOGY_LABEL, Accelerator, accelerator
from tasks.targets.kube_objects import metadata, status

CLUSTER_QUEUE_NAME, LOCAL_QUEUE_NAME, TOPOLOGY_NAME = "cluster-queue", "multislice-queue", "gke-default"
ANY_MACHINE = "machines"
"""The flavor of processors and memory where no type of machine is asked for."""
PRIORITIES: Mapping[str, int] = {"very-low": 100, "low": 250, "medium": 500, "high": 750, "very-high": 1000}
MANAGED = {"app.kubernetes.io/managed-by": "slicebench"}
_LEVELS = (
    "cloud.google.com/gce-topology-block",
    "cloud.google.com/gce-topology-subblock",
    "cloud.google.com/gce-topology-host",
    "kubernetes.io/hostname",
)
"""From far to near; nodes of machines that are placed near each other carry them."""
_POOL = "cloud.google.com/gke-nodepool"


@dataclass(frozen=True)
class Flavor:
    """Machines of one kind. `amounts`: what they have in all, by resource; `near`: pods on them are placed together."""

    name: str
    node_labels: Mapping[str, str]
    amounts: Mapping[str, int]
    near: bool = False


@dataclass(frozen=True)
class Held:
    """Machines of one kind that a cluster has, or may come to have."""

    shape: Accelerator
    machines: int
    any_topology: bool = False
    """The service chooses the topology when machines are asked for."""

    @property
    def flavor(self) -> str:
        """The name of the flavor."""
        if self.shape.kind == "tpu":
            return self.shape.family if self.any_topology else f"{self.shape.family}-{self.shape.topology}"
        return (self.shape.label if self.shape.kind == "gpu" else self.shape.machine_type) or ANY_MACHINE


@dataclass(frozen=True)
class Room:
    """Processors (whole) and memory (bytes) of a cluster's nodes."""

    cpus: int = 0
    memory: int = 0
    by_type: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """The same of machines of one type."""


def held_in(cluster: Cluster) -> tuple[Held, ...]:
    """Returns the accelerators of a cluster's node pools, whoever made them: only those that work count."""
    found: dict[tuple[str, str, str], Held] = {}
    for pool in cluster.pools:
        shape = _shape(pool)
        if shape is None or pool.state not in ("RUNNING", "RECONCILING"):
            continue
        machines = (pool.most if pool.autoscaled else pool.size) * max(1, len(pool.zones))
        key = (shape.label, shape.topology, shape.machine_type)
        before = found[key].machines if key in found else 0
        found[key] = Held(shape, before + machines)
    return tuple(found.values())


def _shape(pool: Pool) -> Accelerator | None:
    """Returns what a node pool's machines are; None: they have no accelerator that we know."""
    if pool.accelerator:
        return Accelerator(
            pool.accelerator, "gpu", pool.accelerator, pool.machine_type, pool.accelerator, "", 1,
            pool.accelerators, pool.accelerators,
        )  # fmt: skip
    try:
        shape = accelerator(pool.machine_type, pool.topology or None)
    except BadInput:
        return None
    return shape if shape.kind == "tpu" else None


def room_of(nodes: Iterable[Object], more: Mapping[str, int] | None = None) -> Room:
    """Returns what nodes have for pods. `more`: how many nodes a pool may come to have, by its name, beyond that."""
    cpus = memory = 0
    by_type: dict[str, tuple[int, int]] = {}
    pools: dict[str, list[tuple[int, int]]] = {}
    for node in nodes:
        labels, has = metadata(node).get("labels") or {}, status(node).get("allocatable") or {}
        one = int(amount(has.get("cpu", 0))), int(amount(has.get("memory", 0)))
        pools.setdefault(labels.get(_POOL, ""), []).append(one)
        cpus, memory = cpus + one[0], memory + one[1]
        kind = labels.get("node.kubernetes.io/instance-type", "")
        sofar = by_type.get(kind, (0, 0))
        by_type[kind] = sofar[0] + one[0], sofar[1] + one[1]
    for pool, most in (more or {}).items():
        there = pools.get(pool, [])
        if there and most > len(there):
            cpus += (most - len(there)) * there[0][0]
            memory += (most - len(there)) * there[0][1]
    return Room(cpus, memory, by_type)


def flavors(
    held: Sequence[Held], room: Room, cpu_limit: int | None, memory_limit: int | None
) -> list[Flavor]:
    """Returns the flavors that a cluster has: one per kind of accelerator, and what processors and memory are of."""
    found: dict[str, Flavor] = {}
    for one in held:
        if one.shape.kind == "cpu":
            continue
        labels = dict(one.shape.node_selector)
        if one.any_topology:
            labels.pop(TOPOLOGY_LABEL, None)
        amounts = {one.shape.resource: one.machines * one.shape.chips_per_host}
        before = found.get(one.flavor)
        if before is not None:
            amounts = {key: value + before.amounts[key] for key, value in amounts.items()}
        found[one.flavor] = Flavor(one.flavor, labels, amounts, near=one.shape.gpu_direct is not None)
    return [*found.values(), *_processors(held, room, cpu_limit, memory_limit)]


def _processors(held: Sequence[Held], room: Room, cpus: int | None, memory: int | None) -> list[Flavor]:
    """Returns the flavors of processors: machines of the types that are asked for by name, else all there are."""
    types = [one for one in held if one.shape.kind == "cpu" and one.shape.machine_type]
    if not types:
        return [Flavor(ANY_MACHINE, {}, _limited(room.cpus, room.memory, cpus, memory))]
    found = []
    for one in types:
        # Machines that have not come yet have what their name says; how much memory that is, nobody tells.
        has = room.by_type.get(one.shape.machine_type) or (one.machines * one.shape.chips_per_host, 0)
        found.append(Flavor(one.flavor, one.shape.node_selector, _limited(*has, cpus, memory)))
    return found


def _limited(cpus: int, memory: int, most_cpus: int | None, most_memory: int | None) -> dict[str, int]:
    """Returns the quota: never more than there is, where that is known."""
    kept = {"cpu": min(cpus or most_cpus or 0, most_cpus or cpus)}
    return {**kept, "memory": min(memory or most_memory or 0, most_memory or memory)}


def amount(quantity: object) -> float:
    """Returns a quantity of Kubernetes (`15890m`, `58Gi`, `4`) as a number; 0 for what is none."""
    text = str(quantity)
    for suffix, factor in _SUFFIXES.items():
        if text.endswith(suffix):
            text, times = text[: -len(suffix)], factor
            break
    else:
        times = 1.0
    try:
        return float(text) * times
    except ValueError:
        return 0.0


_SUFFIXES = {
    **{f"{letter}i": 1024.0**power for power, letter in enumerate("KMGTPE", 1)},
    "m": 0.001,
    **{letter: 1000.0**power for power, letter in enumerate("kMGTPE", 1)},
}


def manifests(wanted: Sequence[Flavor], namespace: str) -> list[tuple[Kind, Object]]:
    """Returns the objects of the queue, in the order in which they are to be made."""
    made: list[tuple[Kind, Object]] = []
    if any(one.near for one in wanted):
        made.append(
            (TOPOLOGY, _object(TOPOLOGY_NAME, spec={"levels": [{"nodeLabel": one} for one in _LEVELS]}))
        )
    for one in wanted:
        spec: dict[str, Any] = {"nodeLabels": dict(one.node_labels)} if one.node_labels else {}
        spec |= {"topologyName": TOPOLOGY_NAME} if one.near else {}
        made.append((RESOURCE_FLAVOR, _object(one.name, spec=spec)))
    made.append((CLUSTER_QUEUE, _cluster_queue(wanted)))
    local = {"metadata": {"name": LOCAL_QUEUE_NAME, "namespace": namespace, "labels": MANAGED}}
    made.append((LOCAL_QUEUE, {**local, "spec": {"clusterQueue": CLUSTER_QUEUE_NAME}}))
    return made


def priority_classes() -> list[tuple[Kind, Object]]:
    """Returns the classes by which workloads go before each other: xpk's names and values."""
    return [
        (
            PRIORITY_CLASS,
            _object(name, value=value, globalDefault=False, description=f"Workloads of {name} priority"),
        )
        for name, value in PRIORITIES.items()
    ]


def _cluster_queue(wanted: Sequence[Flavor]) -> Object:
    groups: dict[tuple[str, ...], list[Flavor]] = {}
    for one in wanted:
        groups.setdefault(tuple(one.amounts), []).append(one)
    return _object(
        CLUSTER_QUEUE_NAME,
        spec={
            "namespaceSelector": {},  # without it, no namespace may use the queue
            "preemption": {"reclaimWithinCohort": "Never", "withinClusterQueue": "LowerPriority"},
            "resourceGroups": [
                {"coveredResources": list(covered), "flavors": [_quota(one) for one in members]}
                for covered, members in groups.items()
            ],
        },
    )


def _quota(one: Flavor) -> Object:
    quotas = [{"name": name, "nominalQuota": str(count)} for name, count in one.amounts.items()]
    return {"name": one.name, "resources": quotas}


def _object(name: str, **rest: Any) -> Object:
    return {"metadata": {"name": name, "labels": MANAGED}, **rest}
