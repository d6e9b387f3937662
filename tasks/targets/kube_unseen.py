"""Quotas of machines of which no node is there: what the queues have of each is believed, else nothing is. Pure.

Machines come and go (autoscaling, a slice that is missing); what one of them has for pods only its node tells.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from tasks.cloud.kubernetes_kinds import Object
from tasks.cloud.labels import LEASE
from tasks.targets.kube_amount import amount
from tasks.targets.kube_objects import metadata, spec
from tasks.targets.kube_queues import Flavor, name_of
from tasks.targets.kube_room import Each, Held, Room

AMOUNTS = ("nominalQuota", "borrowingLimit", "lendingLimit")
AS_THEY_HAVE = "what its machines have"
"""In place of a number that nobody knows yet: whatever is there does, until the machines are."""
_ROOM = ("cpu", "memory")


def room_with(
    seen: Room,
    held: Sequence[Held],
    queues: Iterable[Object],
    cpu_limit: int | None,
    memory_limit: int | None,
) -> Room:
    """Returns what one machine of each type has: by its nodes, else by the quota that our queues have of its kind.

    Of a kind whose quota a limit holds down nothing is known by that.
    """
    named = [one for one in held if one.shape.chips_per_host and one.shape.machine_type not in seen]
    if not named:
        return seen
    had = _quotas(queues)
    found = {
        one.shape.machine_type: each
        for one in named
        if (each := _each(had.get(name_of(one), {}), one, (cpu_limit, memory_limit))) is not None
    }
    return {**found, **seen}


def _quotas(queues: Iterable[Object]) -> Mapping[str, Mapping[str, float]]:
    """Returns the quota of all queues together, by flavor and resource."""
    found: dict[str, dict[str, float]] = {}
    for queue in queues:
        if LEASE in (metadata(queue).get("labels") or {}):  # of a run, on slices of its own
            continue
        for group in spec(queue).get("resourceGroups") or ():
            for flavor in group.get("flavors") or ():
                of_it = found.setdefault(str(flavor.get("name")), {})
                for one in flavor.get("resources") or ():
                    resource = str(one.get("name"))
                    of_it[resource] = of_it.get(resource, 0.0) + amount(one.get("nominalQuota", 0))
    return found


def _each(had: Mapping[str, float], held: Held, limits: tuple[int | None, int | None]) -> Each | None:
    machines = int(had.get(held.shape.resource, 0)) // held.shape.chips_per_host
    has = [had.get(name, 0.0) for name in _ROOM]
    held_down = any(limit is not None and amount >= limit for limit, amount in zip(limits, has, strict=True))
    if not machines or not all(has) or held_down:
        return None
    cpus, memory = (int(one) // machines for one in has)
    return Each(cpus, memory)


def without_numbers(queue: Object, flavors: Iterable[Flavor]) -> Object:
    """Returns a ClusterQueue without numbers of what nobody has seen yet."""
    unseen = {one.name for one in flavors if one.unseen}
    groups = [
        {**group, "flavors": list(_flavors(group["flavors"], unseen))}
        for group in spec(queue).get("resourceGroups") or ()
    ]
    return {**queue, "spec": {**spec(queue), "resourceGroups": groups}} if groups and unseen else queue


def _flavors(flavors: Iterable[Object], unseen: Collection[str]) -> Iterator[Object]:
    for one in flavors:
        if one["name"] not in unseen:
            yield one
            continue
        yield {**one, "resources": [_unnumbered(each) for each in one["resources"]]}


def _unnumbered(quota: Object) -> Object:
    if quota["name"] not in _ROOM:
        return quota
    return {key: AS_THEY_HAVE if key in AMOUNTS and amount(value) else value for key, value in quota.items()}
