"""What becomes of pods whose node is silent or gone: unreachable, evicted, collected."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tests.cloud.kubernetes import clock
from tests.cloud.kubernetes.conditions import holds, put
from tests.cloud.kubernetes.runner import Runner
from tests.cloud.kubernetes.store import Change, Key, Obj

if TYPE_CHECKING:
    from tests.cloud.kubernetes.world import World

SILENT = "standin/silent"
"""The annotation of a node that vanished: since when."""

_UNREACHABLE = "node.kubernetes.io/unreachable"
_OVER = ("Succeeded", "Failed")


def runner(world: World) -> Runner:
    """Returns the controller."""
    return Runner(world, "nodes", _keys, Nodes(world).reconcile)


def _keys(change: Change) -> Iterable[Key]:
    if change.key[0] == "nodes":
        yield change.key


class Nodes:
    """Watches nodes."""

    def __init__(self, world: World) -> None:
        """Works in one cluster."""
        self._world = world

    def reconcile(self, key: Key) -> float | None:
        """Looks at one node; returns when to look again."""
        node = self._world.store.at(key)
        if node is None:
            self._collect(key[2])
            return None
        since = node["metadata"].get("annotations", {}).get(SILENT)
        if since is None:
            return None
        silent = clock.nanoseconds() / 1e9 - float(since)
        settings = self._world.settings
        if silent < settings.node_grace_s:
            return settings.node_grace_s - silent
        self._unreachable(key)
        left = settings.node_grace_s + settings.evict_after_s - silent
        if left > 0:
            return left
        for pod in self._pods(key[2]):
            told = "Taint manager: deleting due to NoExecute taint"
            self._end(pod, "DeletionByTaintManager", told, {})
        return None

    def _pods(self, node: str) -> list[Obj]:
        return [one for one in self._world.store.each("pods") if one["spec"].get("nodeName") == node]

    def _unreachable(self, key: Key) -> None:
        def edit(node: Obj) -> None:
            told = "Kubelet stopped posting node status."
            for kind in ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure"):
                put(node, kind, "Unknown", "NodeStatusUnknown", told)
            taints = node["spec"].get("taints") or []
            if not any(one["key"] == _UNREACHABLE for one in taints):
                added = [{"key": _UNREACHABLE, "effect": effect} for effect in ("NoSchedule", "NoExecute")]
                node["spec"]["taints"] = [*taints, *added]

        if holds(self._world.store.at(key), "Ready"):
            node = self._world.store.change(key, edit)
            if node is not None:
                told = f"Node {key[2]} status is now: NodeNotReady"
                self._world.event(node, "NodeNotReady", told, by="node-controller")
            for pod in self._pods(key[2]):
                meta = pod["metadata"]
                where = ("pods", meta["namespace"], meta["name"])
                self._world.store.change(where, lambda obj: put(obj, "Ready", "False", lastProbeTime=None))
                told = "Node is not ready"
                self._world.event(pod, "NodeNotReady", told, warning=True, by="node-controller")

    def _collect(self, node: str) -> None:
        """Fails and removes the pods of a node that does not exist any more."""
        for pod in self._pods(node):
            self._end(
                pod, "DeletionByPodGC", "PodGC: node no longer exists", {"gracePeriodSeconds": 0}, failed=True
            )

    def _end(self, pod: Obj, reason: str, message: str, options: Obj, *, failed: bool = False) -> None:
        meta = pod["metadata"]
        key = ("pods", meta["namespace"], meta["name"])
        if pod["status"]["phase"] not in _OVER:

            def edit(obj: Obj) -> None:
                put(obj, "DisruptionTarget", "True", reason, message, lastProbeTime=None)
                if failed:
                    obj["status"]["phase"] = "Failed"

            self._world.store.change(key, edit)
        if failed or not meta.get("deletionTimestamp"):
            self._world.delete(key, options)
