"""Writes: create, replace, patch, apply, delete, evict; each as a dry run too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.cloud.kubernetes import applying, bodies, fields, refusals
from tests.cloud.kubernetes.calls import Call
from tests.cloud.kubernetes.conditions import put
from tests.cloud.kubernetes.patches import APPLY, patched
from tests.cloud.kubernetes.refusals import Refused
from tests.cloud.kubernetes.store import Obj

if TYPE_CHECKING:
    from tests.cloud.kubernetes.world import World

Answer = tuple[int, Obj, list[str]]
"""Status code, object, warnings."""


def write(world: World, call: Call, body: bytes) -> Answer:
    """Does what a writing call asks for."""
    match call.verb, call.sub:
        case "create", "eviction":
            return _evict(world, call, body)
        case "create", "":
            return _create(world, call, body)
        case "update", "" | "status":
            return _update(world, call, bodies.object_for(call, bodies.decoded(body)))
        case "patch", "" | "status":
            return _patch(world, call, body)
        case "delete", "":
            return _delete(world, call, body)
        case "deletecollection", "":
            return _delete_all(world, call, body)
    raise Refused(405, "the server does not allow this method on the requested resource")


def _create(world: World, call: Call, body: bytes) -> Answer:
    obj = bodies.object_for(call, bodies.decoded(body))
    obj, warnings = fields.checked(call, obj)
    applying.note(obj, call)
    return 201, world.create(call.resource.qualified, obj, dry_run=call.dry_run), warnings


def _update(world: World, call: Call, obj: Obj) -> Answer:
    old = world.store.at(call.key)
    if old is None:
        raise refusals.not_found(call.resource.qualified, call.name)
    obj, warnings = fields.checked(call, obj)
    if not call.sub:
        applying.note(obj, call, old)
    return 200, world.update(call.resource, obj, sub=call.sub, dry_run=call.dry_run), warnings


def _patch(world: World, call: Call, body: bytes) -> Answer:
    if call.content in APPLY:
        return applying.apply(world, call, bodies.decoded(body, as_yaml=True))
    patch = bodies.decoded(body)
    old = world.store.at(call.key)
    if old is None:
        raise refusals.not_found(call.resource.qualified, call.name)
    new = patched(old, call.content, patch, custom=call.resource.custom)
    if "resourceVersion" not in _meta_of(patch):
        new["metadata"].pop("resourceVersion", None)
    return _update(world, call, new)


def _meta_of(patch: Any) -> dict[str, Any]:
    return (patch.get("metadata") or {}) if isinstance(patch, dict) else {}


def _options(call: Call, body: bytes) -> dict[str, Any]:
    options: dict[str, Any] = dict(bodies.decoded(body)) if body else {}
    if "propagationPolicy" in call.query:
        options["propagationPolicy"] = call.query["propagationPolicy"]
    if (grace := call.number("gracePeriodSeconds")) is not None:
        options["gracePeriodSeconds"] = grace
    policy = options.get("propagationPolicy")
    if policy not in (None, "Background", "Foreground", "Orphan"):
        told = f'Unsupported value: "{policy}": supported values: "Foreground", "Background", "Orphan"'
        causes = [("propagationPolicy", "FieldValueNotSupported", told)]
        raise refusals.invalid("DeleteOptions", "", "", causes)
    return options


def _dry(call: Call, options: dict[str, Any]) -> bool:
    return call.dry_run or options.get("dryRun") == ["All"]


def _delete(world: World, call: Call, body: bytes) -> Answer:
    options = _options(call, body)
    obj, gone = world.delete(call.key, options, dry_run=_dry(call, options))
    # A pod is answered with itself, as anything that still waits for its finalizers.
    if not gone or call.resource.qualified == "pods":
        return 200, obj, []
    return 200, _success(call, obj), []


def _success(call: Call, obj: Obj) -> Obj:
    details = {"name": call.name, "kind": call.resource.plural, "uid": obj["metadata"]["uid"]}
    if call.resource.group:
        details["group"] = call.resource.group
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def _delete_all(world: World, call: Call, body: bytes) -> Answer:
    selected, options = call.selection(), _options(call, body)
    found = [one for one in world.store.list(call.resource.qualified, call.namespace) if selected(one)]
    for one in found:
        key = (call.resource.qualified, one["metadata"].get("namespace", ""), one["metadata"]["name"])
        world.delete(key, options, dry_run=_dry(call, options))
    version = call.resource.api_version
    meta = {"resourceVersion": str(world.store.rv)}
    return (
        200,
        {"kind": f"{call.resource.kind}List", "apiVersion": version, "metadata": meta, "items": found},
        [],
    )


def _evict(world: World, call: Call, body: bytes) -> Answer:
    options = (bodies.decoded(body) or {}).get("deleteOptions") or {}
    pod = world.store.at(call.key)
    if pod is None:
        raise refusals.not_found("pods", call.name)

    def disrupt(obj: Obj) -> None:
        put(obj, "DisruptionTarget", "True", "EvictionByEvictionAPI", "Eviction API: evicting")

    if not call.dry_run:
        world.store.change(call.key, disrupt)
    world.delete(call.key, options, dry_run=call.dry_run)
    return 201, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}, []
