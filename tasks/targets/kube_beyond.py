"""Whether the quota of a ClusterQueue could ever be enough for a JobSet, were nobody else in it. Pure.

Kueue goes through the pods of each replicated job in turn: each gets the first flavor of a group that is for its nodes
and has all of that group's resources for all of the pods. Where quota is borrowed there is no telling how much.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tasks.cloud.kubernetes_labels import PLACED_BY_KUEUE
from tasks.targets.kube_amount import amount
from tasks.targets.kube_asked import Asked, in_words
from tasks.targets.kube_objects import Object, name, spec


@dataclass(frozen=True)
class Beyond:
    """Why a workload can never have its turn. `uncovered`: its queue knows nothing of something that it asks for."""

    why: str
    uncovered: bool = False


def beyond(asked: Sequence[Asked], queue: Object, flavors: Mapping[str, Object]) -> Beyond | None:
    """Returns why a ClusterQueue never admits such pods; None: it could. `flavors` are all that are there, by name."""
    taken: Counter[tuple[str, str]] = Counter()
    groups = spec(queue).get("resourceGroups") or ()
    lends = bool(spec(queue).get("cohortName") or spec(queue).get("cohort"))
    for one in asked:
        wanted = {key: much * one.in_all for key, much in one.each.items() if much}
        covered = {key for group in groups for key in group.get("coveredResources") or ()}
        if lacking := sorted(wanted.keys() - covered):
            return Beyond(f"ClusterQueue {name(queue)} has no quota of {', '.join(lacking)}", uncovered=True)
        for group in groups:
            of_group = {
                key: much for key, much in wanted.items() if key in (group.get("coveredResources") or ())
            }
            if of_group and (why := _assigned(one, of_group, group, flavors, taken, lends)):
                return Beyond(f"ClusterQueue {name(queue)}: {why}")
    return None


def _assigned(
    one: Asked,
    wanted: Mapping[str, float],
    group: Object,
    flavors: Mapping[str, Object],
    taken: Counter[tuple[str, str]],
    lends: bool,
) -> str:
    """Takes the quota of the first flavor that has it; returns why none has."""
    members = group.get("flavors") or ()
    known = {key for each in members for key in _labels(flavors.get(str(each.get("name"))))}
    short: list[str] = []
    for each in members:
        flavor = str(each.get("name"))
        if not _is_for(one, flavors.get(flavor), known):
            continue
        lacking = list(_lacking(wanted, each, taken, lends))
        if not lacking:
            taken.update({(flavor, key): much for key, much in wanted.items()})
            return ""
        short += lacking
    pods = f"the {one.in_all} pods of {one.group}" if one.in_all > 1 else f"the pod of {one.group}"
    if not short:
        return f"no flavor of it is for {pods}"
    return f"{pods} ask for {'; '.join(dict.fromkeys(short))}"


def _lacking(
    wanted: Mapping[str, float], flavor: Object, taken: Counter[tuple[str, str]], lends: bool
) -> Iterator[str]:
    quotas = {str(one.get("name")): one for one in flavor.get("resources") or ()}
    for key, much in wanted.items():
        quota = quotas.get(key, {})
        most = amount(quota.get("nominalQuota", 0))
        if lends:
            limit = quota.get("borrowingLimit")
            most += math.inf if limit is None else amount(limit)
        before = taken[str(flavor.get("name")), key]
        if before + much > most:
            rest = f", of which {in_words(key, before)} go to others of it" if before else ""
            yield f"{in_words(key, much)}, and flavor {flavor.get('name')} has {in_words(key, most)}{rest}"


def _is_for(one: Asked, flavor: Object | None, known: set[str]) -> bool:
    """Whether a flavor's machines are what pods ask for; only labels that flavors of the group have are compared."""
    if flavor is None:
        return False
    labels, pod = _labels(flavor), spec(one.template)
    selector = {key: value for key, value in (pod.get("nodeSelector") or {}).items() if key in known}
    if any(labels.get(key) != value for key, value in selector.items()):
        return False
    annotations = (one.template.get("metadata") or {}).get("annotations") or {}
    by_topology = any(key.startswith(PLACED_BY_KUEUE) and key.endswith("-topology") for key in annotations)
    if by_topology and not spec(flavor).get("topologyName"):
        return False
    tolerations = [*(pod.get("tolerations") or ()), *(spec(flavor).get("tolerations") or ())]
    return all(
        taint.get("effect") == "PreferNoSchedule"
        or any(more.get("key") in (None, "", taint.get("key")) for more in tolerations)
        for taint in spec(flavor).get("nodeTaints") or ()
    )


def _labels(flavor: Object | None) -> Mapping[str, str]:
    return spec(flavor).get("nodeLabels") or {}
