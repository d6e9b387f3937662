"""Lists: what is there now, selected, in pages where asked."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import orjson

from tests.cloud.kubernetes.calls import Call
from tests.cloud.kubernetes.refusals import Refused
from tests.cloud.kubernetes.watching import shown

if TYPE_CHECKING:
    from tests.cloud.kubernetes.world import World


def listed(world: World, call: Call) -> dict[str, Any]:
    """Returns a list object."""
    selected = call.selection()
    since = call.since(world.store.rv)
    if call.query.get("resourceVersionMatch") == "Exact" and (since or 0) < world.store.oldest:
        raise Refused(410, "The resourceVersion for the provided list is too old.")
    found = [one for one in world.store.list(call.resource.qualified, call.namespace) if selected(one)]
    version, after = str(world.store.rv), None
    if token := call.query.get("continue"):
        version, after = _opened(world, token)
        found = [one for one in found if _place(one) > after]
    meta: dict[str, Any] = {"resourceVersion": version}
    limit = call.number("limit") or 0
    if limit > 0 and len(found) > limit:
        meta["continue"] = _token(version, _place(found[limit - 1]))
        if not call.query.get("labelSelector") and not call.query.get("fieldSelector"):
            meta["remainingItemCount"] = len(found) - limit
        found = found[:limit]
    resource = call.resource
    items = [shown(call, one) for one in found]
    if not resource.custom:
        # Items of built-in lists do not repeat their kind.
        items = [
            {key: value for key, value in one.items() if key not in ("kind", "apiVersion")} for one in items
        ]
    group = resource.group
    return {
        "kind": f"{resource.kind}List",
        "apiVersion": f"{group}/{call.version}" if group else call.version,
        "metadata": meta,
        "items": items,
    }


def _place(obj: dict[str, Any]) -> tuple[str, str]:
    return (obj["metadata"].get("namespace", ""), obj["metadata"]["name"])


def _token(version: str, place: tuple[str, str]) -> str:
    return base64.urlsafe_b64encode(orjson.dumps({"rv": version, "start": place})).decode()


def _opened(world: World, token: str) -> tuple[str, tuple[str, str]]:
    try:
        told = orjson.loads(base64.urlsafe_b64decode(token))
    except ValueError:
        raise Refused(400, "continue key is not valid: illegal base64 data at input byte 0") from None
    if int(told["rv"]) < world.store.oldest:
        why = "The provided continue parameter is too old to display a consistent list result."
        raise Refused(410, why)
    return told["rv"], (told["start"][0], told["start"][1])
