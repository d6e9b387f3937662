"""Deletes: at once, after a grace period, or when finalizers are done; the three ways to treat dependents."""

from __future__ import annotations

from typing import Any

from tests.cloud.kubernetes import clock, refusals
from tests.cloud.kubernetes.resources import Resource
from tests.cloud.kubernetes.store import FOREGROUND, ORPHAN, Key, Obj, Store


def delete(
    store: Store, resource: Resource, key: Key, options: dict[str, Any], *, dry_run: bool = False
) -> tuple[Obj, bool]:
    """Deletes an object; returns it, and whether it is gone already."""
    old = store.at(key)
    if old is None:
        raise refusals.not_found(resource.qualified, key[2])
    _check(resource, old, options.get("preconditions") or {})
    policy = options.get("propagationPolicy") or _usual(resource, options.get("orphanDependents"))
    grace = _grace(resource, old, options.get("gracePeriodSeconds"))
    marks = {"Foreground": FOREGROUND, "Orphan": ORPHAN}
    added = [marks[policy]] if policy in marks else []
    if resource.qualified == "namespaces":
        added.append("kubernetes")  # stands for spec.finalizers, which the namespace controller empties
    waits = bool(added or old["metadata"].get("finalizers") or grace)
    if dry_run:
        return old, not waits
    if not waits:
        store.remove(key)
        return old, True

    def mark(obj: Obj) -> None:
        meta = obj["metadata"]
        if not meta.get("deletionTimestamp") or grace < meta.get("deletionGracePeriodSeconds", 0):
            meta["deletionTimestamp"] = clock.seconds_text(grace)
        if not meta.get("deletionGracePeriodSeconds") or grace < meta["deletionGracePeriodSeconds"]:
            meta["deletionGracePeriodSeconds"] = grace
        finalizers = meta.get("finalizers") or []
        if added and not set(added) <= set(finalizers):
            meta["finalizers"] = [*finalizers, *(one for one in added if one not in finalizers)]
        if resource.qualified == "namespaces":
            obj["status"] = {"phase": "Terminating"}

    written = store.change(key, mark)
    return written or old, store.at(key) is None


def _check(resource: Resource, old: Obj, wanted: dict[str, Any]) -> None:
    for field, name in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        have = old["metadata"][field]
        if wanted.get(field) not in (None, have):
            about = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
            gone = "deleted and then recreated" if field == "uid" else "modified"
            told = f"the {name} in the precondition ({wanted[field]}) does not match the {name} in record ({have})"
            why = f"{told}. The object might have been {gone}"
            raise refusals.conflict(about, old["metadata"]["name"], why)


def _usual(resource: Resource, orphan: bool | None) -> str:
    if orphan is not None:
        return "Orphan" if orphan else "Background"
    # batch/v1 keeps the pods of a Job unless it is told otherwise; kubectl always tells.
    return "Orphan" if resource.qualified == "jobs.batch" else "Background"


def _grace(resource: Resource, old: Obj, asked: int | None) -> int:
    if resource.qualified != "pods":
        return 0
    ended = old.get("status", {}).get("phase") in ("Succeeded", "Failed")
    if asked == 0 or ended or not old["spec"].get("nodeName"):
        return 0
    grace = asked if asked is not None else old["spec"].get("terminationGracePeriodSeconds", 30)
    return max(1, int(grace))
