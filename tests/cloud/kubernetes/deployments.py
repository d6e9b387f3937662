"""The status of Deployments; a controller that is installed works once its Deployment is ready."""

from __future__ import annotations

import fnmatch
import secrets
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tests.cloud.kubernetes import clock
from tests.cloud.kubernetes.conditions import put
from tests.cloud.kubernetes.jobset_jobs import owner
from tests.cloud.kubernetes.runner import Runner
from tests.cloud.kubernetes.store import Change, Key, Obj, copied

if TYPE_CHECKING:
    from tests.cloud.kubernetes.world import World

_DEPLOYMENTS = "deployments.apps"
_CONTROLLERS = ("kueue", "jobset")

_AGAIN_S = 0.1


def runner(world: World) -> Runner:
    """Returns the controller."""
    return Runner(world, "deployments", _keys, Deployments(world).reconcile)


def _keys(change: Change) -> Iterable[Key]:
    if change.key[0] == _DEPLOYMENTS:
        yield change.key


class Deployments:
    """Says that they are available, after as long as a container takes to start.

    Nothing is run for them, so no pods are made, but for those of an image that is not there: these say so.
    """

    def __init__(self, world: World) -> None:
        """Works in one cluster."""
        self._world = world
        self._controllers: dict[Key, str] = {}

    def reconcile(self, key: Key) -> float | None:
        """Looks at one of them; returns when to look again."""
        obj = self._world.store.at(key)
        if obj is not None and (runs := _controller(obj)):
            self._controllers[key] = runs
        name = self._controllers.get(key)
        if obj is None:
            if name:
                self._world.installed.pop(name, None)
            return None
        if not obj["spec"].get("replicas", 1):
            if name:
                self._world.installed.pop(name, None)
            self._world.set_status(key, self._available)
            return None
        if self._unmade(key):
            self._world.set_status(key, _unavailable)
            return _AGAIN_S
        left = self._world.settings.ready_after_s - clock.since(obj["metadata"]["creationTimestamp"])
        if left > 0:
            return left
        pods = [one for one in self._world.store.owned_by(obj["metadata"]["uid"]) if one[0] == "pods"]
        if not self._pulled(obj):
            if not pods:
                self._pull(obj)
            self._world.set_status(key, _unavailable)
            return _AGAIN_S
        for one in pods:
            self._world.delete(one, {"gracePeriodSeconds": 0})
        self._world.set_status(key, self._available)
        if name and name not in self._world.installed:
            self._world.installed[name] = time.monotonic() + self._world.settings.webhook_delay_s
        return None

    def _unmade(self, key: Key) -> bool:
        """Says whether its pods cannot be made: while Kueue is there and down, no pod of others can."""
        there = self._world.registry.serves("workloads.kueue.x-k8s.io") and key[1] not in (
            "kube-system",
            "kueue-system",
        )
        running = self._world.store.at(key) or {}
        return there and not self._world.runs("kueue") and not running.get("status", {}).get("readyReplicas")

    def _pulled(self, obj: Obj) -> bool:
        images = [one["image"] for one in obj["spec"]["template"]["spec"]["containers"]]
        known = self._world.settings.images
        return all(any(fnmatch.fnmatchcase(image, one) for one in known) for image in images)

    def _pull(self, obj: Obj) -> None:
        template, meta = copied(obj["spec"]["template"]), obj["metadata"]
        name = f"{meta['name']}-{secrets.token_hex(5)[:9]}-{secrets.token_hex(3)[:5]}"
        there = {"name": name, "namespace": meta["namespace"], "ownerReferences": [owner(obj)]}
        template["metadata"] = {**(template.get("metadata") or {}), **there}
        self._world.create("pods", template)

    def _available(self, obj: Obj) -> None:
        count = obj["spec"].get("replicas", 1)
        status = obj.setdefault("status", {})
        status["observedGeneration"] = obj["metadata"]["generation"]
        for field in ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"):
            status[field] = count
        put(obj, "Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
        put(obj, "Progressing", "True", "NewReplicaSetAvailable", "ReplicaSet has successfully progressed.")


def _controller(obj: Obj) -> str:
    """Returns which controller a Deployment runs, by its image alone: charts name it as they like."""
    containers = obj["spec"]["template"]["spec"]["containers"]
    images = {one["image"].partition("@")[0].rpartition("/")[2].partition(":")[0] for one in containers}
    return next((one for one in _CONTROLLERS if one in images), "")


def _unavailable(obj: Obj) -> None:
    status = obj.setdefault("status", {})
    status["observedGeneration"] = obj["metadata"]["generation"]
    status["replicas"] = status["updatedReplicas"] = obj["spec"].get("replicas", 1)
    told = "Deployment does not have minimum availability."
    put(obj, "Available", "False", "MinimumReplicasUnavailable", told)
