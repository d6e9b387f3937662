"""The queue that workloads of a cluster wait in, as Kueue's objects: from its machines alone. Pure.

A flavor is a kind of machine, named after it for as long as there are any: how many there are is the quota of the
ClusterQueue, so that adding slices renames nothing that workloads already run under. All flavors are of one group,
each with the chips, processors and memory of its own machines: what asks for processors beside chips is held to the
machines that the chips are on. What asks for no chips does not get to them: it does not tolerate their taint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from tasks.cloud.kubernetes_kinds import (
    CLUSTER_QUEUE,
    LOCAL_QUEUE,
    PRIORITY_CLASS,
    RESOURCE_FLAVOR,
    TOPOLOGY,
    Kind,
    Object,
)
from tasks.cloud.kubernetes_labels import HOST
from tasks.config.accelerators import MACHINE_LABEL, TOPOLOGY_LABEL
from tasks.targets.kube_room import Each, Held, Room

CLUSTER_QUEUE_NAME, LOCAL_QUEUE_NAME, TOPOLOGY_NAME = "cluster-queue", "multislice-queue", "gke-default"
COMMON = "machines"
"""The flavor of the machines that are there for whatever needs no chips."""
PRIORITIES: Mapping[str, int] = {"very-low": 100, "low": 250, "medium": 500, "high": 750, "very-high": 1000}
MANAGED = {"app.kubernetes.io/managed-by": "slicebench"}
_LEVELS = (
    "cloud.google.com/gce-topology-block",
    "cloud.google.com/gce-topology-subblock",
    "cloud.google.com/gce-topology-host",
    HOST,
)
"""From far to near; nodes of machines that are placed near each other carry them."""
_UNKNOWN = Each(1_000_000, 2**50)
"""Of machines that nobody has seen yet: their chips alone are the limit."""


@dataclass(frozen=True)
class Flavor:
    """Machines of one kind. `amounts`: what they have in all, by resource; `near`: pods on them are placed together."""

    name: str
    node_labels: Mapping[str, str]
    amounts: Mapping[str, int]
    taint: str = ""
    """The key of the taint that its nodes have: pods get there that tolerate it."""
    near: bool = False
    unseen: bool = False
    """No node of its machines is known: what they have besides chips, nobody knows."""


def flavors(
    held: Sequence[Held], room: Room, cpu_limit: int | None, memory_limit: int | None
) -> list[Flavor]:
    """Returns the flavors that a cluster has: one per kind of machine. The limits hold for each of them."""
    kinds = _cpu_kinds(held)
    found: dict[str, Flavor] = {}
    for one in held:
        flavor = _flavor(one, room.get(one.shape.machine_type, _UNKNOWN), kinds)
        flavor = replace(flavor, unseen=one.shape.machine_type not in room)
        before = found.get(flavor.name)
        if before is not None:
            amounts = {key: value + before.amounts[key] for key, value in flavor.amounts.items()}
            flavor = replace(flavor, amounts=amounts, unseen=flavor.unseen or before.unseen)
        found[flavor.name] = flavor
    limits = {"cpu": cpu_limit, "memory": memory_limit}
    return [
        replace(one, amounts={name: min(has, limits.get(name) or has) for name, has in one.amounts.items()})
        for one in sorted(found.values(), key=lambda one: not one.taint)  # chips first, as they are asked for
    ]


def _flavor(one: Held, each: Each, cpu_kinds: Sequence[str]) -> Flavor:
    shape = one.shape
    room = {"cpu": each.cpus * one.machines, "memory": each.memory * one.machines}
    if shape.kind == "cpu":
        named = COMMON if shape.machine_type == cpu_kinds[0] else shape.machine_type
        return Flavor(named, {MACHINE_LABEL: shape.machine_type} if len(cpu_kinds) > 1 else {}, room)
    labels = dict(shape.node_selector)
    if one.any_topology:
        labels.pop(TOPOLOGY_LABEL, None)
    chips = {shape.resource: one.machines * shape.chips_per_host}
    return Flavor(name_of(one), labels, chips | room, shape.resource, near=shape.gpu_direct is not None)


def name_of(one: Held) -> str:
    """Returns the name of the flavor of machines that have chips."""
    shape = one.shape
    if shape.kind != "tpu":
        return shape.label
    return shape.family if one.any_topology else f"{shape.family}-{shape.topology}"


def _cpu_kinds(held: Sequence[Held]) -> Sequence[str]:
    """Returns the types of machines without chips, the common one first: pods that name none start there."""
    found = sorted((not one.common, one.shape.machine_type) for one in held if one.shape.kind == "cpu")
    return list(dict.fromkeys(kind for _, kind in found))


@dataclass(frozen=True)
class Names:
    """How the objects of a queue are named and labelled.

    `on` are labels that nodes must have as well, `past` the key of a taint that they have besides.
    """

    cluster_queue: str = CLUSTER_QUEUE_NAME
    local_queue: str = LOCAL_QUEUE_NAME
    prefix: str = ""
    labels: Mapping[str, str] = field(default_factory=lambda: MANAGED)
    on: Mapping[str, str] = field(default_factory=dict)
    past: str = ""
    cohort: str = ""
    """Whose queues share what is idle; empty: none does."""


USUAL = Names()


class Bound(NamedTuple):
    """Of a flavor in a cohort, by resource: how much a queue may borrow, and lend; None: all that there is."""

    borrow: Mapping[str, int] | None = None
    lend: Mapping[str, int] | None = None


def manifests(wanted: Sequence[Flavor], namespace: str, names: Names = USUAL) -> list[tuple[Kind, Object]]:
    """Returns the objects of the queue, in the order in which they are to be made."""
    made: list[tuple[Kind, Object]] = []
    if any(one.near for one in wanted):
        made.append(
            (
                TOPOLOGY,
                _object(TOPOLOGY_NAME, MANAGED, spec={"levels": [{"nodeLabel": one} for one in _LEVELS]}),
            )
        )
    for one in wanted:
        labels = {**one.node_labels, **names.on}
        spec: dict[str, Any] = {"nodeLabels": labels} if labels else {}
        if one.taint:
            spec["nodeTaints"] = [{"key": one.taint, "value": "present", "effect": "NoSchedule"}]
        if names.past:
            spec["tolerations"] = [{"key": names.past, "operator": "Exists", "effect": "NoSchedule"}]
        spec |= {"topologyName": TOPOLOGY_NAME} if one.near else {}
        made.append((RESOURCE_FLAVOR, _object(names.prefix + one.name, names.labels, spec=spec)))
    made.append((CLUSTER_QUEUE, cluster_queue(wanted, names)))
    local = {"metadata": {"name": names.local_queue, "namespace": namespace, "labels": dict(names.labels)}}
    made.append((LOCAL_QUEUE, {**local, "spec": {"clusterQueue": names.cluster_queue}}))
    return made


def priority_classes(labels: Mapping[str, str] = MANAGED) -> list[tuple[Kind, Object]]:
    """Returns the classes by which workloads go before each other: xpk's names and values."""
    return [
        (
            PRIORITY_CLASS,
            _object(
                name, labels, value=value, globalDefault=False, description=f"Workloads of {name} priority"
            ),
        )
        for name, value in PRIORITIES.items()
    ]


def cluster_queue(
    wanted: Sequence[Flavor], names: Names, bounds: Mapping[str, Bound] | None = None
) -> Object:
    """Each flavor has a quota of every resource, in the same order, as Kueue wants it: none of what it has not."""
    covered = list(dict.fromkeys(name for one in wanted for name in one.amounts))
    members = [
        {
            "name": names.prefix + one.name,
            "resources": [_quota(one, name, (bounds or {}).get(one.name, Bound())) for name in covered],
        }
        for one in wanted
    ]
    groups = [{"coveredResources": covered, "flavors": members}] if members else []
    reclaim = "Any" if names.cohort else "Never"  # what is its own comes back at once, whatever runs on it
    spec = {
        "namespaceSelector": {},  # without it, no namespace may use the queue
        "preemption": {"reclaimWithinCohort": reclaim, "withinClusterQueue": "LowerPriority"},
        "resourceGroups": groups,
    }
    return _object(
        names.cluster_queue, names.labels,
        spec={"cohortName": names.cohort, **spec} if names.cohort else spec,
    )  # fmt: skip


def _quota(flavor: Flavor, resource: str, bound: Bound) -> dict[str, str]:
    quota = {"name": resource, "nominalQuota": str(flavor.amounts.get(resource, 0))}
    for word, limits in (("borrowingLimit", bound.borrow), ("lendingLimit", bound.lend)):
        if limits is not None:
            quota[word] = str(limits.get(resource, 0))
    return quota


def _object(name: str, labels: Mapping[str, str], **rest: Any) -> Object:
    return {"metadata": {"name": name, "labels": dict(labels)}, **rest}
