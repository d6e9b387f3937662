"""The status of Deployments and DaemonSets; a controller that is installed works once its Deployment is ready."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tests.cloud.kubernetes import clock
from tests.cloud.kubernetes.conditions import put
from tests.cloud.kubernetes.runner import Runner
from tests.cloud.kubernetes.store import Change, Key, Obj

if TYPE_CHECKING:
    from tests.cloud.kubernetes.world import World

_DEPLOYMENTS, _DAEMONS = "deployments.apps", "daemonsets.apps"
_CONTROLLERS = {
    ("kueue-system", "kueue-controller-manager"): "kueue",
    ("jobset-system", "jobset-controller-manager"): "jobset",
}


def runner(world: World) -> Runner:
    """Returns the controller."""
    return Runner(world, "deployments", _keys, Deployments(world).reconcile)


def _keys(change: Change) -> Iterable[Key]:
    if change.key[0] in (_DEPLOYMENTS, _DAEMONS):
        yield change.key


class Deployments:
    """Says that they are available, after as long as a container takes to start; no pods are made."""

    def __init__(self, world: World) -> None:
        """Works in one cluster."""
        self._world = world

    def reconcile(self, key: Key) -> float | None:
        """Looks at one of them; returns when to look again."""
        obj = self._world.store.at(key)
        name = _CONTROLLERS.get(key[1:])
        if obj is None:
            if name and key[0] == _DEPLOYMENTS:
                self._world.installed.pop(name, None)
            return None
        left = self._world.settings.ready_after_s - clock.since(obj["metadata"]["creationTimestamp"])
        if left > 0:
            return left
        self._world.set_status(key, self._available if key[0] == _DEPLOYMENTS else self._everywhere)
        if name and key[0] == _DEPLOYMENTS and name not in self._world.installed:
            self._world.installed[name] = time.monotonic() + self._world.settings.webhook_delay_s
        return None

    def _available(self, obj: Obj) -> None:
        count = obj["spec"].get("replicas", 1)
        status = obj.setdefault("status", {})
        status["observedGeneration"] = obj["metadata"]["generation"]
        for field in ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"):
            status[field] = count
        put(obj, "Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
        put(obj, "Progressing", "True", "NewReplicaSetAvailable", "ReplicaSet has successfully progressed.")

    def _everywhere(self, obj: Obj) -> None:
        selector = obj["spec"]["template"]["spec"].get("nodeSelector") or {}
        nodes = [
            one
            for one in self._world.store.each("nodes")
            if selector.items() <= one["metadata"]["labels"].items()
        ]
        status = obj.setdefault("status", {})
        status["observedGeneration"] = obj["metadata"]["generation"]
        for field in ("desiredNumberScheduled", "currentNumberScheduled", "numberReady", "numberAvailable",
                      "updatedNumberScheduled"):  # fmt: skip
            status[field] = len(nodes)
        status["numberMisscheduled"] = 0
