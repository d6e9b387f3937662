"""At which place a Workload of Kueue waits: by priority, then by age, among those that want the same ClusterQueue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tasks.targets.kube_objects import (
    Object,
    condition,
    created_at,
    is_true,
    name,
    namespace,
    number,
    spec,
    status,
    uid_of,
)


@dataclass(frozen=True)
class Position:
    """Place `number` of `of` that wait, from 1. The ClusterQueue may let a later one go first where it fits."""

    number: int
    of: int
    queue: str

    def __str__(self) -> str:
        return f"place {self.number} of {self.of} in queue {self.queue}"


def position(
    workload: Object, neighbours: Sequence[Object], queues: Sequence[Object] = ()
) -> Position | None:
    """Returns where a Workload waits among `neighbours`; None when it does not wait, or is not among them.

    `queues` are LocalQueues: with them those of other namespaces that want the same ClusterQueue count as well.
    """
    clusters = {(namespace(one), name(one)): str(spec(one).get("clusterQueue") or "") for one in queues}

    def queue(one: Object) -> tuple[str, str]:
        local = namespace(one), str(spec(one).get("queueName") or "")
        cluster = clusters.get(local)
        return ("", cluster) if cluster else local

    mine = queue(workload)
    line = sorted((one for one in neighbours if waits(one) and queue(one) == mine), key=_order)
    uids = [uid_of(one) for one in line]
    if uid_of(workload) not in uids:
        return None
    return Position(uids.index(uid_of(workload)) + 1, len(line), mine[1])


def waits(workload: Object) -> bool:
    """Says whether a Workload waits for quota: nobody gave it any, and it is neither finished nor switched off."""
    if is_true(workload, "Finished") or spec(workload).get("active") is False:
        return False
    return not is_true(workload, "QuotaReserved") and not is_true(workload, "Admitted")


def priority_of(workload: Object) -> str:
    """Returns the name of a Workload's priority class, as Kueue's versions write it, else its number."""
    told = spec(workload)
    ref = told.get("priorityClassRef") or {}
    return str(ref.get("name") or told.get("priorityClassName") or number(told.get("priority")))


def admitted_by(workload: Object | None) -> str:
    """Returns the ClusterQueue that gives a Workload its quota; empty: none does."""
    return str((status(workload).get("admission") or {}).get("clusterQueue") or "")


def _order(workload: Object) -> tuple[int, float, str]:
    """Kueue's own order: what was evicted because its pods did not come up goes behind those that came meanwhile."""
    since = created_at(workload) or 0.0
    evicted = condition(workload, "Evicted")
    if evicted is not None and evicted.reason == "PodsReadyTimeout" and evicted.since is not None:
        since = evicted.since
    return -number(spec(workload).get("priority")), since, name(workload)
