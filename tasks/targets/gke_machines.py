"""Whether a workload fits the machines that would be made for it, before any is: by Compute Engine, or by name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from runtime.contract.errors import InfrastructureError, Problem
from tasks.cloud.compute import Compute, MachineType
from tasks.cloud.kubernetes_kinds import CLUSTER_QUEUE, RESOURCE_FLAVOR, Object
from tasks.config import size
from tasks.config.accelerators import Accelerator
from tasks.config.cluster import ClusterConfig
from tasks.targets.cluster_size import most_cpu_nodes
from tasks.targets.kube_asked import Asked, asked_by
from tasks.targets.kube_beyond import beyond
from tasks.targets.kube_homes import too_large
from tasks.targets.kube_objects import name, spec
from tasks.targets.kube_queues import flavors, manifests
from tasks.targets.kube_room import Each, Held

_CPUS_AT_END = re.compile(r".+-(standard|highmem|highcpu|megamem)-(\d+)")
_EVICTED_AT = 100 << 20
"""Bytes that the kubelet keeps free."""


def never_fits(made: ClusterConfig, jobset: Object, compute: Compute | None) -> Iterator[Problem]:
    """Yields why pods could not be on the machines of a cluster that is made so, or not within its queue's quota.

    `compute` None: it is not asked, and what a name does not tell is not judged.
    """
    shape, asked = made.shape, asked_by(jobset)
    if shape is None:
        return
    room = {
        kind: _told(compute, made.zone, kind)
        for kind in dict.fromkeys((shape.machine_type, made.cpu_pool.machine_type))
    }
    chips = {shape.resource: shape.chips_per_host} if shape.kind != "cpu" else {}
    for one in asked:
        kind, has = made.cpu_pool.machine_type, {}
        if _on_slices(one, made):
            kind, has = shape.machine_type, chips
        if why := too_large(one, [{**_for_pods(room[kind]), **has}]):
            what = f"the workload does not fit machines of {kind}: {why}"
            because = "GKE keeps some of each machine for itself" if kind == shape.machine_type else ""
            fix = (
                "write less cpu: or memory:, or take another type"
                if kind == shape.machine_type
                else "write another make: {cpu_pool: {machine_type: …}}, or less cpu: and memory:"
            )
            yield Problem("error", None, what, because, fix)
            return
    yield from _beyond_quota(made, asked, room)


def _beyond_quota(
    made: ClusterConfig, asked: Sequence[Asked], room: Mapping[str, MachineType]
) -> Iterator[Problem]:
    queueing, shape = made.queueing, made.shape
    if not queueing.install or shape is None:
        return
    cpu = made.cpu_pool.machine_type
    common = Held(Accelerator(cpu, "cpu", "", cpu, "", "", 1, 0, 0), most_cpu_nodes(made), common=True)
    known = {
        kind: Each(int(has["cpu"]), int(has["memory"]))
        for kind, one in room.items()
        if len(has := _for_pods(one)) == 2
    }
    limit = queueing.memory_limit
    wanted = flavors(
        [Held(shape, made.machines), common],
        known,
        queueing.cpu_limit,
        size.in_bytes(limit) if limit is not None else None,
    )
    objects = manifests(wanted, "default")
    queue = next(one for kind, one in objects if kind is CLUSTER_QUEUE)
    there = {name(one): one for kind, one in objects if kind is RESOURCE_FLAVOR}
    if found := beyond(asked, queue, there):
        what = (
            f"the queue of the cluster that is made would never have what the workload asks for: {found.why}"
        )
        fix = "raise make: {queueing: {cpu_limit, memory_limit}}, or leave them out"
        yield Problem("error", None, what, "it would wait for its turn for ever", fix)


def _on_slices(one: Asked, made: ClusterConfig) -> bool:
    """Whether pods are for the machines of the type: they take chips, or there are no chips to be kept off from."""
    shape = made.shape
    assert shape is not None
    if shape.kind == "cpu":
        return shape.node_selector.items() <= (spec(one.template).get("nodeSelector") or {}).items()
    return shape.resource in one.each


def _told(compute: Compute | None, zone: str, kind: str) -> MachineType:
    """Returns what machines of a type have, as far as is known."""
    by_name = _CPUS_AT_END.fullmatch(kind)
    guessed = MachineType(int(by_name[2]) if by_name else 0, 0)
    if compute is None:
        return guessed
    try:
        return compute.machine_type(zone, kind) or guessed
    except InfrastructureError:  # which is told where the place is looked at
        return guessed


def _for_pods(one: MachineType) -> dict[str, float]:
    """Returns what a machine has for pods at most, by how much GKE says that it keeps of each; without what is unknown.

    Source: GKE's "Plan node sizes": 6 % of the first processor, 1 % of the next, 0.5 % of two more, 0.25 % of others;
    25 % of the first 4 GiB, 20 % of 4 more, 10 % of 8, 6 % of 112, 2 % of what is above 128 GiB.
    """
    found: dict[str, float] = {}
    if one.cpus:
        found["cpu"] = one.cpus - _kept(one.cpus, ((1, 0.06), (1, 0.01), (2, 0.005), (10**9, 0.0025)))
    if one.memory:
        gib = one.memory / 2**30
        kept = _kept(gib, ((4, 0.25), (4, 0.2), (8, 0.1), (112, 0.06), (10**9, 0.02)))
        found["memory"] = (gib - kept) * 2**30 - _EVICTED_AT
    return found


def _kept(much: float, steps: Sequence[tuple[float, float]]) -> float:
    kept = 0.0
    for width, share in steps:
        part = min(much, width)
        kept, much = kept + part * share, much - part
    return kept
