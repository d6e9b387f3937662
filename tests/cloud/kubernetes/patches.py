"""The patches of a client applied to an object: JSON patch, merge patch, and strategic merge with keyed lists."""

from __future__ import annotations

from typing import Any

import jsonpatch
from jsonpointer import JsonPointerException

from tests.cloud.kubernetes.refusals import Refused
from tests.cloud.kubernetes.store import Obj, copied

JSON = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = ("application/apply-patch+yaml", "application/apply-patch+json")

MERGE_KEYS = {
    "containers": ("name",),
    "initContainers": ("name",),
    "env": ("name",),
    "volumes": ("name",),
    "volumeMounts": ("mountPath",),
    "ports": ("containerPort", "protocol"),
    "conditions": ("type",),
    "ownerReferences": ("uid",),
    "imagePullSecrets": ("name",),
    "replicatedJobs": ("name",),
    "podSets": ("name",),
    "secrets": ("name",),
}
"""Lists whose entries are told apart by these fields, for strategic merge and for server-side apply."""


def patched(obj: Obj, content: str, patch: Any, *, custom: bool) -> Obj:
    """Returns a patched copy."""
    if content == JSON:
        try:
            result: Obj = jsonpatch.apply_patch(copied(obj), patch)
        except (jsonpatch.JsonPatchException, JsonPointerException) as error:
            raise Refused(
                422, f"the server rejected our request due to an error in our request: {error}"
            ) from None
        return result
    if not isinstance(patch, dict):
        raise Refused(400, "error decoding patch: json: cannot unmarshal array into Go value of type map")
    if content == MERGE:
        return _merged(copied(obj), patch)
    if content == STRATEGIC and not custom:
        return _strategic(copied(obj), patch)
    accepted = "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
    raise Refused(
        415,
        f"the body of the request was in an unknown format - accepted media types include: {accepted}",
    )


def _merged(old: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    result = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merged(result.get(key), value)
    return result


def _strategic(old: Any, patch: Any, name: str = "") -> Any:
    if isinstance(patch, dict):
        result = dict(old) if isinstance(old, dict) else {}
        for key, value in patch.items():
            if key.startswith("$"):
                continue
            if value is None:
                result.pop(key, None)
            else:
                result[key] = _strategic(result.get(key), value, key)
        return result
    keys = MERGE_KEYS.get(name)
    if not isinstance(patch, list) or not keys or not isinstance(old, list):
        return patch
    entries = list(old)
    for one in patch:
        at = next((i for i, had in enumerate(entries) if all(had.get(k) == one.get(k) for k in keys)), None)
        if one.get("$patch") == "delete":
            if at is not None:
                del entries[at]
        elif at is None:
            entries.append(one)
        else:
            entries[at] = _strategic(entries[at], one)
    return entries
