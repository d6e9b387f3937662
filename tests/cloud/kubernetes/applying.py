"""Server-side apply: who manages which field, conflicts, and fields that their manager no longer names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.cloud.kubernetes import bodies, clock, fields, fieldsets, refusals
from tests.cloud.kubernetes.calls import Call
from tests.cloud.kubernetes.fieldsets import Path
from tests.cloud.kubernetes.refusals import Refused
from tests.cloud.kubernetes.store import Obj, copied

if TYPE_CHECKING:
    from tests.cloud.kubernetes.world import World


def note(obj: Obj, call: Call, old: Obj | None = None) -> None:
    """Notes, in place, that the fields which a request set or changed are its manager's now."""
    manager = call.query.get("fieldManager") or "unknown"
    changed = fieldsets.paths(obj)
    entries = [dict(one) for one in ((old or {}).get("metadata") or {}).get("managedFields") or []]
    if old is not None:
        changed = {one for one in changed if fieldsets.value_at(obj, one) != fieldsets.value_at(old, one)}
        for entry in entries:
            entry["fieldsV1"] = fieldsets.encoded(fieldsets.decoded(entry["fieldsV1"]) - changed)
    if changed:
        own = next(
            (one for one in entries if (one["manager"], one["operation"]) == (manager, "Update")), None
        )
        if own is None:
            entries.append(_entry(manager, "Update", call, changed))
        else:
            own["fieldsV1"] = fieldsets.encoded(fieldsets.decoded(own["fieldsV1"]) | changed)
    obj["metadata"]["managedFields"] = [one for one in entries if one["fieldsV1"]]


def apply(world: World, call: Call, told: Any) -> tuple[int, Obj, list[str]]:
    """Applies a configuration; makes the object where it is not there."""
    manager = call.query.get("fieldManager")
    if not manager:
        why = "Required value: is required for apply patch"
        causes = [("fieldManager", "FieldValueRequired", why)]
        raise refusals.invalid("PatchOptions", "meta.k8s.io", "", causes)
    if isinstance(told, dict) and (told.get("metadata") or {}).get("managedFields"):
        raise Refused(400, "metadata.managedFields must be nil")
    if call.resource.custom and isinstance(told, dict):
        fields.refuse_nulls(call, told)
    wanted, warnings = fields.checked(call, bodies.object_for(call, told))
    mine = fieldsets.paths(wanted)
    entry = _entry(manager, "Apply", call, mine)
    old = world.store.at(call.key)
    if old is None:
        wanted["metadata"]["managedFields"] = [entry]
        return 201, world.create(call.resource.qualified, wanted, dry_run=call.dry_run), warnings
    others = [
        one
        for one in old["metadata"].get("managedFields") or []
        if (one["manager"], one["operation"]) != (manager, "Apply")
    ]
    before = _owned(old, manager)
    _conflicts(call, wanted, old, mine, others)
    new = copied(old)
    held: set[Path] = set().union(*(fieldsets.decoded(one["fieldsV1"]) for one in others))
    for path in before - mine - held:
        fieldsets.remove(new, path)
    new = fieldsets.merged(new, wanted)
    if call.flag("force"):
        for one in others:
            one["fieldsV1"] = fieldsets.encoded(
                {
                    path
                    for path in fieldsets.decoded(one["fieldsV1"])
                    if path not in mine or _same(path, wanted, old)
                }
            )
    new["metadata"]["managedFields"] = [*(one for one in others if one["fieldsV1"]), entry]
    if _plain(new) == _plain(old) and before == mine:
        return 200, old, warnings
    return 200, world.update(call.resource, new, sub=call.sub, dry_run=call.dry_run), warnings


def _owned(old: Obj, manager: str) -> set[Path]:
    for one in old["metadata"].get("managedFields") or []:
        if (one["manager"], one["operation"]) == (manager, "Apply"):
            return fieldsets.decoded(one["fieldsV1"])
    return set()


def _conflicts(call: Call, wanted: Obj, old: Obj, mine: set[Path], others: list[dict[str, Any]]) -> None:
    if call.flag("force"):
        return
    found: list[tuple[str, str]] = []
    for one in others:
        for path in sorted(mine & fieldsets.decoded(one["fieldsV1"])):
            if not _same(path, wanted, old):
                using = "" if one["operation"] == "Apply" else f" using {one['apiVersion']}"
                found.append((f'conflict with "{one["manager"]}"{using}', fieldsets.text(path)))
    if found:
        many = "1 conflict" if len(found) == 1 else f"{len(found)} conflicts"
        listed = ", ".join(f"{who}: {where}" for who, where in found)
        causes = [{"reason": "FieldManagerConflict", "message": who, "field": where} for who, where in found]
        raise Refused(409, f"Apply failed with {many}: {listed}", details={"causes": causes})


def _same(path: Path, wanted: Obj, old: Obj) -> bool:
    return bool(fieldsets.value_at(wanted, path) == fieldsets.value_at(old, path))


def _entry(manager: str, operation: str, call: Call, owned: set[Path]) -> dict[str, Any]:
    entry = {
        "manager": manager,
        "operation": operation,
        "apiVersion": call.resource.api_version,
        "time": clock.seconds_text(),
        "fieldsType": "FieldsV1",
        "fieldsV1": fieldsets.encoded(owned),
    }
    return {**entry, "subresource": call.sub} if call.sub else entry


def _plain(obj: Obj) -> Obj:
    meta = {
        key: value
        for key, value in obj["metadata"].items()
        if key not in ("managedFields", "resourceVersion")
    }
    return {**obj, "metadata": meta}
