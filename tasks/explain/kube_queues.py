"""Troubles of the queue itself that a workload waits in: missing, stopped, or without what it refers to."""

from __future__ import annotations

import re

from tasks.explain.kube_scene import KubeScene, of_condition, trouble
from tasks.explain.scene import Trouble
from tasks.targets.kube_objects import (
    QUEUE_NAME,
    Condition,
    Object,
    condition,
    label,
    name,
    namespace,
    spec,
)
from tasks.targets.kube_queue import waits

_NO_QUEUE = (
    r"^(Misconfigured|Suspended):|(Local|Cluster)Queue \S+ (doesn't exist|is inactive|is stopped)"
    r"|references missing"
)


def no_queue(scene: KubeScene) -> Trouble | None:
    """The queue does not exist, or is stopped. Of what waited before it was stopped Kueue does not say so itself."""
    mine = scene.objects.workload
    queue = label(scene.objects.jobset, QUEUE_NAME) or str(spec(mine).get("queueName"))
    why = refused(scene, _NO_QUEUE)
    told = [of_condition(mine, why)] if why is not None else []
    if mine is not None and waits(mine) and not scene.found.over:
        told += [of_condition(one, stopped) for one, stopped in _stopped(scene, mine, queue)]
    if not told:
        return None
    return trouble(
        "queue",
        f"its queue {queue} is missing or stopped; it starts by itself once the queue is there",
        told,
        (
            f"slicebench cluster create {scene.cluster or 'CLUSTER'}   # repairs queues of a cluster that it made",
            scene.describe,
        ),
    )


def refused(scene: KubeScene, pattern: str) -> Condition | None:
    """Returns the condition that says why it has no quota, if it says what the pattern does."""
    why = condition(scene.objects.workload, "QuotaReserved")
    if why is None or why.true or scene.found.over or not re.search(pattern, f"{why.reason}: {why.message}"):
        return None
    return why


def _stopped(scene: KubeScene, mine: Object, queue: str) -> list[tuple[Object, Condition]]:
    """Returns what its queues say of themselves where they take nothing: the ClusterQueue says why, if we see it."""
    local = next(
        (one for one in scene.objects.queues if (namespace(one), name(one)) == (namespace(mine), queue)), None
    )
    behind = str(spec(local).get("clusterQueue") or "")
    cluster = next((one for one in scene.cluster_queues if name(one) == behind), None)
    found = [(one, condition(one, "Active")) for one in (local, cluster) if one is not None]
    return [(one, active) for one, active in found if active is not None and not active.true]
