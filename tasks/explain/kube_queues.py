"""Troubles of the queue itself that a workload waits in: missing, stopped, or without what it refers to."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tasks.cloud.kubernetes_labels import QUEUE_NAME
from tasks.explain.kube_scene import KubeScene, of_condition, trouble
from tasks.explain.scene import Trouble
from tasks.targets.kube_objects import Condition, Object, condition, label, name, namespace, spec
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
    stopped: list[tuple[Object, Condition]] = []
    if mine is not None and waits(mine) and not scene.found.over:
        stopped = _stopped(scene, mine, queue)
        told += [of_condition(one, active) for one, active in stopped]
    if not told:
        return None
    return trouble(
        "queue",
        f"its queue {queue} {_what_is_wrong(why, stopped)}",
        told,
        (_mend(scene, stopped), scene.describe),
    )


def _what_is_wrong(why: Condition | None, stopped: Sequence[tuple[Object, Condition]]) -> str:
    """Returns what keeps a queue from taking anything, and what would let it: of what stopped, the last says why."""
    reason = stopped[-1][1].reason if stopped else ""
    if reason == "Stopped":
        return "is stopped; it starts by itself once somebody lets that go on (stopPolicy: None)"
    if reason == "Terminating":
        return "is being deleted; it starts by itself once there is another of that name"
    if reason.endswith("NotFound"):
        return "refers to what is missing; it starts by itself once that is there"
    if reason == "ClusterQueueDoesNotExist":
        return "has no ClusterQueue behind it; it starts by itself once that is there"
    if why is not None and not stopped and "LocalQueue" in why.message and "exist" in why.message:
        return "is missing; it starts by itself once the queue is there"
    return "is missing or stopped; it starts by itself once the queue is there"


def _mend(scene: KubeScene, stopped: Sequence[tuple[Object, Condition]]) -> str:
    """Returns the command that lets a queue take things again: what somebody stopped no repair lets go on."""
    one = stopped[-1][0] if stopped and stopped[-1][1].reason == "Stopped" else None
    if one is None:
        create = f"slicebench cluster create {scene.cluster or 'CLUSTER'}"
        return f"{create}   # repairs queues of a cluster that it made"
    where = f" -n {namespace(one)}" if one.get("kind") == "LocalQueue" else ""
    what = f"{one.get('kind', 'queue').lower()} {name(one)}{where}"
    return f'kubectl patch {what} --type=merge -p \'{{"spec":{{"stopPolicy":"None"}}}}\''


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
