"""Whether a cluster's nodes could ever take all pods of a JobSet at once, were nothing else on them. Pure.

Only what is sure is said. What passes (a node that is cordoned, or not ready) is taken to have passed, and what others
add to pods on their way (GKE tolerations of its own taints) to have been added.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from runtime.contract.counting import counted
from tasks.cloud.labels import LEASE
from tasks.config.accelerators import GPU_LABEL, TPU_LABEL
from tasks.targets.kube_amount import amount
from tasks.targets.kube_asked import Asked, in_words
from tasks.targets.kube_objects import Object, metadata, name, spec, status

_PASSES = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "cloud.google.com/", LEASE)
"""How keys of taints begin that are of a node's present state, that GKE sees to itself, or of machines of ours."""
_CHIPS = {TPU_LABEL: "google.com/tpu", GPU_LABEL: "nvidia.com/gpu"}
_UNTOLD = math.inf
_KEEPS_OFF = frozenset({"NoSchedule", "NoExecute"})
_SHOWN = ("google.com/tpu", "nvidia.com/gpu", "cpu", "memory")


def homeless(one: Asked, nodes: Sequence[Object], tolerated: Iterable[Object] = ()) -> str:
    """Returns why these pods could never all have a place; empty: they could. `tolerated`: what their queue adds."""
    tolerations = [*(spec(one.template).get("tolerations") or ()), *tolerated]
    alike = [node for node in nodes if is_of_the_kind(node, one.template)]
    if not alike:
        return f"no node has {_kind(one.template)}"
    open_ = [node for node in alike if not _kept_off(node, tolerations, one.each)]
    if not open_:
        keys = sorted({str(taint.get("key")) for node in alike for taint in spec(node).get("taints") or ()})
        return f"pods of {one.group} tolerate none of the taints of their nodes ({', '.join(keys)})"
    has = [_room(node) for node in open_]
    if lacking := too_large(one, has):
        return lacking
    rooms = Counter[str]()
    for node, room in zip(open_, has, strict=True):
        domain = (metadata(node).get("labels") or {}).get(one.apart, "") if one.apart else ""
        rooms[domain] += _fitting(one, room)
    if one.apart:
        whole = sum(1 for domain, room in rooms.items() if domain and room >= one.pods)
        if whole < one.jobs:
            need = f"{counted(one.jobs, 'value')} of {one.apart} with room for {counted(one.pods, 'pod')}"
            return f"{one.group} needs {need}, and there are nodes for {whole}"
        return ""
    if rooms[""] < one.in_all:
        nodes_told = f"{counted(len(open_), 'node')} for them hold {rooms['']}"
        return f"{one.group} is {counted(one.in_all, 'pod')} at once, and the {nodes_told}"
    return ""


def too_large(one: Asked, machines: Sequence[Mapping[str, object]]) -> str:
    """Returns why a single pod fits on none of these machines, by what each has for pods; empty: it does on one.

    What a machine does not say it has is not judged, but for chips: of these it has none then.
    """
    if any(not _lacks(one, machine) for machine in machines):
        return ""
    for resource in sorted(one.each, key=lambda key: (_SHOWN.index(key) if key in _SHOWN else 9, key)):
        most = max((amount(machine.get(resource, 0)) for machine in machines), default=0.0)
        if one.each[resource] > most and any(resource in _lacks(one, machine) for machine in machines):
            asks, has = in_words(resource, one.each[resource]), in_words(resource, most)
            return f"each pod of {one.group} asks for {asks}, and the largest node for it has {has}"
    return f"no node has all that a pod of {one.group} asks for"


def is_of_the_kind(node: Object, template: Object) -> bool:
    """Whether a node has the labels that pods ask for."""
    labels = metadata(node).get("labels") or {}
    if not (spec(template).get("nodeSelector") or {}).items() <= labels.items():
        return False
    affinity = (spec(template).get("affinity") or {}).get("nodeAffinity") or {}
    terms = (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms")
    return not terms or any(_holds(term, labels) for term in terms)


def _holds(term: Object, labels: Mapping[str, str]) -> bool:
    """Whether a term of an affinity holds; what is not known of it is taken to."""
    for one in term.get("matchExpressions") or ():
        key, values, has = one.get("key"), one.get("values") or (), labels.get(one.get("key", ""))
        met = {
            "In": has in values,
            "NotIn": has not in values,
            "Exists": key in labels,
            "DoesNotExist": key not in labels,
        }
        if not met.get(str(one.get("operator")), True):
            return False
    return True


def _kept_off(node: Object, tolerations: Sequence[Object], each: Mapping[str, float]) -> bool:
    for taint in spec(node).get("taints") or ():
        key = str(taint.get("key"))
        # The taint of what a pod asks for is tolerated for it, by the API server of GKE and of many others.
        if taint.get("effect") not in _KEEPS_OFF or key.startswith(_PASSES) or key in each:
            continue
        if not any(_tolerates(one, taint) for one in tolerations):
            return True
    return False


def _tolerates(one: Object, taint: Object) -> bool:
    if one.get("effect") not in (None, "", taint.get("effect")) or one.get("key") not in (
        None,
        "",
        taint.get("key"),
    ):
        return False
    return one.get("operator") == "Exists" or (one.get("value") or "") == (taint.get("value") or "")


def _room(node: Object) -> Mapping[str, object]:
    """Returns what a node has for pods. One that is just up says nothing of its chips yet, and may have them all."""
    told = status(node).get("allocatable") or {}
    labels = metadata(node).get("labels") or {}
    chips = [chip for key, chip in _CHIPS.items() if key in labels and not amount(told.get(chip, 0))]
    return {**told, **dict.fromkeys(chips, _UNTOLD)}


def _lacks(one: Asked, machine: Mapping[str, object]) -> set[str]:
    """Returns of what a machine has less than a pod asks for."""
    return {
        name
        for name, much in one.each.items()
        if (name in machine or "/" in name) and much > amount(machine.get(name, 0))
    }


def _fitting(one: Asked, machine: Mapping[str, object]) -> int:
    """Returns how many of the pods one machine could hold."""
    if _lacks(one, machine):
        return 0
    if one.alone:
        return 1
    rooms = [
        int(amount(machine[name]) // much)
        for name, much in one.each.items()
        if much and name in machine and machine[name] is not _UNTOLD
    ]
    return min([*rooms, int(amount(machine.get("pods", 110)))])


def _kind(template: Object) -> str:
    """Returns in words which labels pods ask of nodes."""
    selector = spec(template).get("nodeSelector") or {}
    told = ", ".join(f"{key}={value}" for key, value in selector.items())
    return told or "the labels that its pods ask for by affinity"


def kinds_of(nodes: Iterable[Object], keys: Iterable[str]) -> str:
    """Returns in words which values of some labels nodes have, each once; the nodes' names where they have none."""
    wanted = tuple(keys)
    found = set()
    for node in nodes:
        labels = metadata(node).get("labels") or {}
        if own := ", ".join(f"{key}={labels[key]}" for key in wanted if key in labels):
            found.add(own)
    return "; ".join(sorted(found)) or ", ".join(sorted(name(node) for node in nodes)[:3])
