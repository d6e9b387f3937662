"""DaemonSets: a pod on every node that they are for, made anew where one goes, and what their status says of it."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tests.cloud.kubernetes.jobset_jobs import owner
from tests.cloud.kubernetes.runner import Runner
from tests.cloud.kubernetes.scheduler import node_affinity, tolerated
from tests.cloud.kubernetes.store import Change, Key, Obj, copied

if TYPE_CHECKING:
    from tests.cloud.kubernetes.world import World

_DAEMONS = "daemonsets.apps"
_ALWAYS = [
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": effect}
    for key, effect in (
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    )
]
"""What the controller adds to every such pod: it stays where others have to leave."""


def runner(world: World) -> Runner:
    """Returns the controller."""
    daemons = Daemons(world)

    def keys(change: Change) -> Iterable[Key]:
        if change.key[0] == _DAEMONS:
            yield change.key
        elif change.key[0] == "nodes":
            for one in world.store.each(_DAEMONS):
                yield (_DAEMONS, one["metadata"]["namespace"], one["metadata"]["name"])
        elif change.key[0] == "pods":
            for reference in change.obj["metadata"].get("ownerReferences") or []:
                if reference["kind"] == "DaemonSet":
                    yield (_DAEMONS, change.key[1], reference["name"])

    return Runner(world, "daemons", keys, daemons.reconcile)


class Daemons:
    """Keeps one pod of each DaemonSet on each of its nodes."""

    def __init__(self, world: World) -> None:
        """Works in one cluster."""
        self._world = world

    def reconcile(self, key: Key) -> float | None:
        """Makes and deletes the pods of one DaemonSet."""
        daemon = self._world.store.at(key)
        if daemon is None or daemon["metadata"].get("deletionTimestamp"):
            return None
        pods = [self._world.store.at(one) for one in self._world.store.owned_by(daemon["metadata"]["uid"])]
        by_node = {pod["spec"]["nodeName"]: pod for pod in pods if pod is not None and pod["kind"] == "Pod"}
        nodes = {one["metadata"]["name"] for one in self._world.store.each("nodes") if _is_for(daemon, one)}
        for node in nodes - by_node.keys():
            self._make(daemon, node)
        for node, pod in by_node.items():
            ended = pod["status"]["phase"] in ("Failed", "Succeeded")
            if (node not in nodes or ended) and "deletionTimestamp" not in pod["metadata"]:
                self._world.delete(("pods", key[1], pod["metadata"]["name"]))
        ready = sum(_ready(pod) for pod in by_node.values())
        self._world.set_status(key, lambda obj: _tell(obj, len(nodes), len(by_node.keys() & nodes), ready))
        return None

    def _make(self, daemon: Obj, node: str) -> None:
        template = copied(daemon["spec"]["template"])
        meta, spec = template.get("metadata") or {}, template["spec"]
        spec["tolerations"] = [*(spec.get("tolerations") or []), *_ALWAYS]
        spec["nodeName"] = node  # the real one leaves that to the scheduler, by an affinity to the one node
        name = f"{daemon['metadata']['name']}-{secrets.token_hex(3)[:5]}"
        there = {
            "name": name,
            "namespace": daemon["metadata"]["namespace"],
            "ownerReferences": [owner(daemon)],
        }
        self._world.create("pods", {"metadata": {**meta, **there}, "spec": spec})


def _is_for(daemon: Obj, node: Obj) -> bool:
    pod = daemon["spec"]["template"]
    wanted, labels = pod["spec"].get("nodeSelector") or {}, node["metadata"]["labels"]
    if not wanted.items() <= labels.items() or not node_affinity(pod, labels):
        return False
    pod = {**pod, "spec": {**pod["spec"], "tolerations": [*(pod["spec"].get("tolerations") or []), *_ALWAYS]}}
    taints = node["spec"].get("taints") or []
    return all(one["effect"] == "PreferNoSchedule" or tolerated(pod, one) for one in taints)


def _ready(pod: Obj) -> bool:
    found = pod["status"].get("containerStatuses") or []
    return bool(found) and all(one.get("ready") for one in found)


def _tell(obj: Obj, wanted: int, there: int, ready: int) -> None:
    status = obj.setdefault("status", {})
    status["observedGeneration"] = obj["metadata"]["generation"]
    for field, count in (
        ("desiredNumberScheduled", wanted), ("currentNumberScheduled", there), ("updatedNumberScheduled", there),
        ("numberReady", ready), ("numberAvailable", ready), ("numberMisscheduled", 0),
    ):  # fmt: skip
        status[field] = count
