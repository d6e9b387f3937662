"""The scheduler: gives each pod a node that has its labels, tolerances, resources and neighbours, or says why not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tests.cloud.kubernetes import quantities
from tests.cloud.kubernetes.conditions import put
from tests.cloud.kubernetes.runner import Runner
from tests.cloud.kubernetes.selectors import expression_holds, matching
from tests.cloud.kubernetes.store import Change, Key, Obj

if TYPE_CHECKING:
    from tests.cloud.kubernetes.world import World

_BY = "default-scheduler"
_AGAIN_S = 0.25


def runner(world: World) -> Runner:
    """Returns the scheduler."""
    return Runner(world, "scheduler", _keys, Scheduler(world).schedule)


def _keys(change: Change) -> Iterable[Key]:
    if change.key[0] == "pods" and not change.obj["spec"].get("nodeName") and change.type != "DELETED":
        yield change.key


class Scheduler:
    """Places pods, one at a time."""

    def __init__(self, world: World) -> None:
        """Works in one cluster."""
        self._world = world

    def schedule(self, key: Key) -> float | None:
        """Places one pod; returns when to try again."""
        pod = self._world.store.at(key)
        if pod is None or pod["spec"].get("nodeName") or pod["metadata"].get("deletionTimestamp"):
            return None
        if pod["spec"].get("schedulingGates"):
            return None
        placed = [one for one in self._world.store.each("pods") if _holds_node(one)]
        reasons: Counter[str] = Counter()
        nodes = self._world.store.list("nodes")
        for node in nodes:
            why = self._unfit(pod, node, placed)
            if why is None:
                self._bind(key, node)
                return None
            reasons[why] += 1
        self._unschedulable(key, len(nodes), reasons)
        return _AGAIN_S

    def _unfit(self, pod: Obj, node: Obj, placed: list[Obj]) -> str | None:
        labels = node["metadata"]["labels"]
        if node["spec"].get("unschedulable"):
            return "node(s) were unschedulable"
        if any(labels.get(key) != value for key, value in (pod["spec"].get("nodeSelector") or {}).items()):
            return "node(s) didn't match Pod's node affinity/selector"
        if not node_affinity(pod, labels):
            return "node(s) didn't match Pod's node affinity/selector"
        for taint in node["spec"].get("taints") or []:
            if taint["effect"] != "PreferNoSchedule" and not tolerated(pod, taint):
                return f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value', '')}}}"
        here = [one for one in placed if one["spec"]["nodeName"] == node["metadata"]["name"]]
        room = quantities.numbers(node["status"]["allocatable"])
        wanted = quantities.requests(pod)
        if len(here) >= room.get("pods", 110):
            return "Too many pods"
        for one in here:
            for name, amount in quantities.requests(one).items():
                room[name] = room.get(name, 0) - amount
        for name, amount in wanted.items():
            if amount > room.get(name, 0):
                return f"Insufficient {name}"
        return self._neighbours(pod, labels, placed)

    def _neighbours(self, pod: Obj, labels: dict[str, str], placed: list[Obj]) -> str | None:
        affinity = pod["spec"].get("affinity") or {}
        for wanted in _terms(affinity.get("podAffinity")):
            friends = [one for one in placed if _selects(wanted, one)]
            if friends and labels.get(wanted["topologyKey"]) not in self._domains(wanted, friends):
                return "node(s) didn't match pod affinity rules"
        for unwanted in _terms(affinity.get("podAntiAffinity")):
            strangers = [one for one in placed if _selects(unwanted, one)]
            if labels.get(unwanted["topologyKey"]) in self._domains(unwanted, strangers):
                return "node(s) didn't match pod anti-affinity rules"
        return None

    def _domains(self, term: dict[str, Any], pods: list[Obj]) -> set[str]:
        nodes = (self._world.store.get("nodes", "", one["spec"]["nodeName"]) for one in pods)
        return {str(one["metadata"]["labels"].get(term["topologyKey"])) for one in nodes if one}

    def _bind(self, key: Key, node: Obj) -> None:
        def edit(obj: Obj) -> None:
            obj["spec"]["nodeName"] = node["metadata"]["name"]
            put(obj, "PodScheduled", "True", lastProbeTime=None)

        pod = self._world.store.change(key, edit)
        if pod is not None:
            told = f"Successfully assigned {key[1]}/{key[2]} to {node['metadata']['name']}"
            self._world.event(pod, "Scheduled", told, by=_BY, action="Binding")

    def _unschedulable(self, key: Key, count: int, reasons: Counter[str]) -> None:
        listed = ", ".join(sorted(f"{number} {why}" for why, number in reasons.items()))
        message = (
            f"0/{count} nodes are available: {listed}." if count else "no nodes available to schedule pods"
        )
        if count:
            helpful = (
                "No preemption victims found for incoming pod"
                if any(one.startswith("Insufficient") for one in reasons)
                else "Preemption is not helpful for scheduling"
            )
            message += (
                f" no new claims to deallocate, preemption: 0/{count} nodes are available: {count} {helpful}."
            )
        known = self._world.store.at(key)

        def edit(obj: Obj) -> None:
            put(obj, "PodScheduled", "False", "Unschedulable", message, lastProbeTime=None)

        pod = self._world.store.change(key, edit)
        if pod is not None and pod is not known:
            self._world.event(pod, "FailedScheduling", message, warning=True, by=_BY, action="Scheduling")


def _holds_node(pod: Obj) -> bool:
    return bool(pod["spec"].get("nodeName")) and pod["status"]["phase"] not in ("Succeeded", "Failed")


def tolerated(pod: Obj, taint: dict[str, Any]) -> bool:
    """Says whether a pod may be on a node with this taint."""
    for one in pod["spec"].get("tolerations") or []:
        same = one.get("operator") == "Exists" or one.get("value", "") == taint.get("value", "")
        if (
            one.get("effect", taint["effect"]) == taint["effect"]
            and one.get("key", taint["key"]) == taint["key"]
            and same
        ):
            return True
    # GKE's webhook tolerates the taint of the accelerator that a pod asks for.
    return taint["key"] in quantities.requests(pod)


def node_affinity(pod: Obj, labels: dict[str, str]) -> bool:
    """Says whether a node with these labels is one that a pod's affinity demands."""
    wanted = ((pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    if not wanted:
        return True
    terms = wanted["nodeSelectorTerms"]
    return any(all(expression_holds(e, labels) for e in term.get("matchExpressions") or []) for term in terms)


def _terms(affinity: dict[str, Any] | None) -> list[dict[str, Any]]:
    return (affinity or {}).get("requiredDuringSchedulingIgnoredDuringExecution") or []


def _selects(term: dict[str, Any], pod: Obj) -> bool:
    return matching(term.get("labelSelector"), pod["metadata"].get("labels") or {})
