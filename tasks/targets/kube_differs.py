"""What of objects in a cluster is not as it should be, field by field, as it would be told."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tasks.cloud.kubernetes import Kubernetes
from tasks.cloud.kubernetes_kinds import PRIORITY_CLASS, Kind, Object
from tasks.targets.kube_amount import amount
from tasks.targets.kube_objects import metadata, name
from tasks.targets.kube_queue_up import ours

_AMOUNTS = ("nominalQuota", "borrowingLimit", "lendingLimit")


def differing(api: Kubernetes, wanted: Sequence[tuple[Kind, Object]]) -> Iterator[str]:
    """Yields a line for each object that would be made or changed. Raises KubernetesError."""
    for kind, manifest in wanted:
        space = metadata(manifest).get("namespace")
        called = f"{kind.name} {name(manifest)}" + (f" in {space}" if space else "")
        there = api.find(kind, name(manifest), space)
        if there is None:
            yield f"make {called}"
            continue
        if kind is PRIORITY_CLASS or (kind.group and not ours(there)):
            continue  # neither is changed: the value of a class cannot be, and what others made stays
        fields = "; ".join(unlike(manifest, there))
        if fields:
            yield f"change {called}: {fields}"


def unlike(wanted: Object, there: Object) -> Iterator[str]:
    """Yields the fields that are not as wanted: what else there is, others wrote, or the cluster itself."""
    for path, value, has in _leaves(wanted, there):
        if not _same(path, value, has):
            yield f"{path}: {_said(has)} → {_said(value)}"
    yield from _too_much(wanted.get("spec") or {}, there.get("spec") or {})


def _too_much(wanted: Mapping[str, Any], there: Mapping[str, Any]) -> Iterator[str]:
    """Yields what changes the meaning of a queue by being there at all."""
    if "cohortName" in there and "resourceGroups" in wanted and not wanted.get("cohortName"):
        yield f"spec.cohortName: {_said(there['cohortName'])} → nothing"
    if there.get("stopPolicy", "None") != "None":
        yield f"spec.stopPolicy: {_said(there['stopPolicy'])} → {_said('None')}"


def _leaves(wanted: Any, there: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    if isinstance(wanted, Mapping):
        for key, value in wanted.items():
            has = there.get(key) if isinstance(there, Mapping) else None
            yield from _leaves(value, has, f"{path}.{key}" if path else key)
    elif isinstance(wanted, list) and any(isinstance(one, Mapping) for one in wanted):
        known = list(there) if isinstance(there, list) else []
        for nth, value in enumerate(wanted):
            yield from _leaves(value, known[nth] if nth < len(known) else None, f"{path}.{nth}")
        if len(known) > len(wanted):
            yield path, f"{len(wanted)} of them", f"{len(known)} of them"
    else:
        yield path, wanted, there


def _same(path: str, wanted: Any, there: Any) -> bool:
    if path.rpartition(".")[2] in _AMOUNTS:
        return there is not None and amount(wanted) == amount(there)
    return bool(wanted == there or (not wanted and not there))


def _said(value: Any) -> str:
    return "nothing" if value is None else json.dumps(value)
