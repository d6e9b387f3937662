"""What of objects in a cluster is not as it should be, field by field, as it would be told."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tasks.cloud.kubernetes import Kubernetes
from tasks.cloud.kubernetes_kinds import PRIORITY_CLASS, Kind, Object
from tasks.targets.kube_amount import amount
from tasks.targets.kube_objects import metadata, name
from tasks.targets.kube_queue_up import ours
from tasks.targets.kube_unseen import AMOUNTS, AS_THEY_HAVE

_IN_FLAVOR = re.compile(r"^spec\.resourceGroups\.0\.flavors\.(.+)\.resources\.")


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
            yield f"{_shortened(path)}: {_said(has)} → {_said(value)}"
    yield from _too_much(wanted.get("spec") or {}, there.get("spec") or {})


def _shortened(path: str) -> str:
    """Returns the path of a quota without what is the same in all of them: flavors.FLAVOR.RESOURCE.FIELD."""
    return _IN_FLAVOR.sub(r"flavors.\1.", path).replace("spec.resourceGroups.0.flavors.", "flavors.")


def _too_much(wanted: Mapping[str, Any], there: Mapping[str, Any]) -> Iterator[str]:
    """Yields what changes the meaning of a queue by being there at all."""
    if "cohortName" in there and "resourceGroups" in wanted and not wanted.get("cohortName"):
        yield f"spec.cohortName: {_said(there['cohortName'])} → nothing"
    if there.get("stopPolicy", "None") != "None":
        yield f"spec.stopPolicy: {_said(there['stopPolicy'])} → {_said('None')}"


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
