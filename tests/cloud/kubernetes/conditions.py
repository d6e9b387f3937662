"""Conditions of objects: put, read, with the time of their last change of status."""

from __future__ import annotations

from typing import Any

from tests.cloud.kubernetes import clock
from tests.cloud.kubernetes.store import Obj


def find(obj: Obj | None, kind: str) -> dict[str, Any]:
    """Returns a condition by type, empty where there is none."""
    listed = ((obj or {}).get("status") or {}).get("conditions") or []
    return next((one for one in listed if one["type"] == kind), {})


def holds(obj: Obj | None, kind: str) -> bool:
    """Says whether a condition is True."""
    return find(obj, kind).get("status") == "True"


def put(
    obj: Obj,
    kind: str,
    status: str,
    reason: str = "",
    message: str = "",
    *,
    probed: bool = False,
    first: bool = False,
    **more: Any,
) -> bool:
    """Sets a condition in place; returns whether anything changed. Pods and Jobs also say when it was probed."""
    listed: list[dict[str, Any]] = obj.setdefault("status", {}).setdefault("conditions", [])
    old = next((one for one in listed if one["type"] == kind), None)
    if old and (old["status"], old.get("reason", ""), old.get("message", "")) == (status, reason, message):
        return False
    now = clock.seconds_text()
    moved = now if old is None or old["status"] != status else old["lastTransitionTime"]
    made: dict[str, Any] = {"type": kind, "status": status}
    if probed:
        made["lastProbeTime"] = now
    made["lastTransitionTime"] = moved
    made |= {key: value for key, value in (("reason", reason), ("message", message)) if value}
    made |= more
    if old is not None:
        listed[listed.index(old)] = made
    elif first:
        listed.insert(0, made)
    else:
        listed.append(made)
    return True
