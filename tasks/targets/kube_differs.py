"""What of objects in a cluster is not as it should be, field by field, as it would be told."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tasks.cloud.kubernetes import Kubernetes
from tasks.cloud.kubernetes_kinds import (
    CLUSTER_QUEUE,
    PRIORITY_CLASS,
    RESOURCE_FLAVOR,
    TOPOLOGY,
    Kind,
    Object,
)
from tasks.targets.kube_amount import amount
from tasks.targets.kube_excess import excess
from tasks.targets.kube_objects import metadata, name
from tasks.targets.kube_queue_up import ours
from tasks.targets.kube_unseen import AMOUNTS, AS_THEY_HAVE

_LEFT_TO_OTHERS = (CLUSTER_QUEUE, RESOURCE_FLAVOR, TOPOLOGY)
"""Kinds of which one that slicebench did not make is used as it is. LocalQueues are in namespaces of ours."""
_IN_FLAVOR = re.compile(r"^spec\.resourceGroups\.0\.flavors\.(.+)\.resources\.")


@dataclass(frozen=True)
class Change:
    """What is done in a cluster: an object is made or taken away, or `what` says in words what changes."""

    do: Literal["make", "take away", "change"]
    what: str

    def __str__(self) -> str:
        return self.what if self.do == "change" else f"{self.do} {self.what}"


def differing(api: Kubernetes, wanted: Sequence[tuple[Kind, Object]]) -> Iterator[Change]:
    """Yields each object that would be made or changed. Raises KubernetesError."""
    for kind, manifest in wanted:
        there = api.find(kind, name(manifest), metadata(manifest).get("namespace"))
        if there is None:
            yield Change("make", called(kind, manifest))
            continue
        if kind is PRIORITY_CLASS or _is_of_others(kind, there):
            continue  # neither is changed: the value of a class cannot be, and what others made stays
        fields = "; ".join(unlike(manifest, there))
        if fields:
            yield Change("change", f"change {called(kind, manifest)}: {fields}")


def called(kind: Kind, one: Object) -> str:
    """Returns what people call an object."""
    space = metadata(one).get("namespace")
    return f"{kind.name} {name(one)}" + (f" in {space}" if space else "")


def of_others(api: Kubernetes, wanted: Sequence[tuple[Kind, Object]]) -> Iterator[str]:
    """Yields a line for each object that stays as it is, and why. Raises KubernetesError."""
    for kind, manifest in wanted:
        there = api.find(kind, name(manifest))
        if there is None:
            continue
        if kind is PRIORITY_CLASS and there.get("value") != manifest["value"]:
            differs = f"value: {there.get('value')} → {manifest['value']}"
            yield f"{kind.name} {name(manifest)}: {differs}: it cannot be changed"
        if not _is_of_others(kind, there):
            continue
        fields = "; ".join(unlike({**manifest, "metadata": {}}, there))
        labels = " ".join(f"{key}={value}" for key, value in metadata(manifest)["labels"].items())
        stays = f"it stays as it is{f' ({fields})' if fields else ''}"
        yield (
            f"{kind.name} {name(manifest)} was not made by slicebench, or lost the labels that say so: {stays}; "
            f"`kubectl label {kind.plural} {name(manifest)} {labels}` makes it slicebench's"
        )


def _is_of_others(kind: Kind, there: Object) -> bool:
    return kind in _LEFT_TO_OTHERS and not ours(there)


def unlike(wanted: Object, there: Object) -> Iterator[str]:
    """Yields the fields that are not as wanted: what else there is, others wrote, or the cluster itself."""
    for path, value, has in _leaves(wanted, there):
        if not _same(path, value, has):
            yield f"{_shortened(path)}: {_said(has)} → {_said(value)}"
    for one in excess(wanted, there):
        yield f"spec.{'.'.join(one.path)}: {_said(one.has)} → {_said(one.usual)}"


def _shortened(path: str) -> str:
    """Returns the path of a quota without what is the same in all of them: flavors.FLAVOR.RESOURCE.FIELD."""
    return _IN_FLAVOR.sub(r"flavors.\1.", path).replace("spec.resourceGroups.0.flavors.", "flavors.")


def _leaves(wanted: Any, there: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yields fields with what is wanted and what is there; parts of a list that have names go by these."""
    if isinstance(wanted, Mapping):
        for key, value in wanted.items():
            has = there.get(key) if isinstance(there, Mapping) else None
            yield from _leaves(value, has, f"{path}.{key}" if path else key)
    elif isinstance(wanted, list) and any(isinstance(one, Mapping) for one in wanted):
        known = list(there) if isinstance(there, list) else []
        if _are_named(wanted) and _are_named(known):
            yield from _named(wanted, known, path)
            return
        for nth, value in enumerate(wanted):
            yield from _leaves(value, known[nth] if nth < len(known) else None, f"{path}.{nth}")
        if len(known) > len(wanted):
            yield path, f"{len(wanted)} of them", f"{len(known)} of them"
    else:
        yield path, wanted, there


def _are_named(parts: Sequence[Any]) -> bool:
    return all(isinstance(one, Mapping) and "name" in one for one in parts)


def _named(wanted: Sequence[Object], there: Sequence[Object], path: str) -> Iterator[tuple[str, Any, Any]]:
    known = {one["name"]: one for one in there}
    names = [one["name"] for one in wanted]
    for one in wanted:
        fields = {key: value for key, value in one.items() if key != "name"}
        yield from _leaves(fields, known.get(one["name"]), f"{path}.{one['name']}")
    for other in known:
        if other not in names:
            yield f"{path}.{other}", None, "more than is wanted"
    common = [one for one in names if one in known]
    if common != (had := [one for one in known if one in names]):
        yield path, common, had


def _same(path: str, wanted: Any, there: Any) -> bool:
    if path.rpartition(".")[2] in AMOUNTS:
        return there is not None and (wanted == AS_THEY_HAVE or amount(wanted) == amount(there))
    return bool(wanted == there or (not wanted and not there))


def _said(value: Any) -> str:
    return "nothing" if value is None else value if value == AS_THEY_HAVE else json.dumps(value)
