"""Fields that a kind does not have, or of the wrong type: dropped, warned about, or refused."""

from __future__ import annotations

import re
from typing import Any

import orjson

from tests.cloud.kubernetes import amounts, refusals, schemas
from tests.cloud.kubernetes.calls import Call
from tests.cloud.kubernetes.patches import APPLY
from tests.cloud.kubernetes.refusals import Refused
from tests.cloud.kubernetes.schemas import Schema
from tests.cloud.kubernetes.store import Obj

_HOOKS = {
    "JobSet": "mjobset.kb.io",
    "ClusterQueue": "mclusterqueue.kb.io",
    "ResourceFlavor": "mresourceflavor.kb.io",
}
"""Whose webhook decodes an object before its definition is looked at."""
_GO = {"integer": "int32", "boolean": "bool", "array": "[]string", "object": "map[string]string"}
_JSON = {
    dict: "object",
    list: "array",
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
}
Wrong = tuple[str, str, str]
"""Where, what is there, what should be: as JSON Schema names types."""


def checked(call: Call, obj: Obj) -> tuple[Obj, list[str]]:
    """Returns an object without unknown fields, and warnings about them; Strict refuses it."""
    schema = schemas.of(call.resource)
    if schema is None:
        return obj, []
    unknown: list[str] = []
    wrong: list[Wrong] = []
    known = _walk({key: value for key, value in obj.items() if key != "status"}, schema, "", unknown, wrong)
    if "status" in obj:
        known["status"] = obj["status"]
    if wrong:
        raise _mistyped(call, obj, wrong)
    if unknown and call.content in APPLY:
        raise _untyped(call, obj, unknown[0], "field not declared in schema")
    amounts.settle(call, known)
    schemas.require(call.resource, known)
    if not unknown:
        return known, []
    told = [f'unknown field "{one}"' for one in unknown]
    mode = call.query.get("fieldValidation", "Warn")
    if mode == "Strict":
        kind = call.resource.kind
        prefix = f'{kind} in version "{call.version}" cannot be handled as a {kind}: '
        raise Refused(400, f"{prefix}strict decoding error: {', '.join(told)}")
    return known, told if mode == "Warn" else []


def refuse_nulls(call: Call, told: Obj) -> None:
    """Refuses the nulls of an applied custom object; other ways of writing drop them."""
    schema = schemas.of(call.resource)
    wrong: list[Wrong] = []
    if schema is not None:
        body = {key: value for key, value in told.items() if key not in ("metadata", "status")}
        _nulls(body, schema, "", wrong)
    if wrong:
        raise _shapeless(call, told, wrong)


def _mistyped(call: Call, obj: Obj, wrong: list[Wrong]) -> Refused:
    """Says who calls a type wrong: the applying, the server that decodes, a webhook that does, or a definition."""
    kind, (where, there, wanted) = call.resource.kind, wrong[0]
    if call.content in APPLY:
        expected = {"integer": "numeric (int or float)", "array": "list", "object": "map"}.get(wanted, wanted)
        return _untyped(call, obj, where, f"expected {expected}, got {there}")
    there = {"integer": "number", "boolean": "bool"}.get(there, there)
    path = re.sub(r"\[\d+\]", "", where)
    of_metadata = path.startswith("metadata.")
    field = f"ObjectMeta.{path.split('.')[1]}" if of_metadata else f"{kind}.{path}"
    why = f"json: cannot unmarshal {there} into Go struct field {field} of type {_GO.get(wanted, wanted)}"
    if not call.resource.custom or of_metadata:
        return Refused(400, f'{kind} in version "{call.version}" cannot be handled as a {kind}: {why}')
    if hook := _HOOKS.get(kind):
        return refusals.undecoded(hook, why)
    return _shapeless(call, obj, wrong)


def _untyped(call: Call, obj: Obj, where: str, why: str) -> Refused:
    """Returns the refusal of an applied object whose fields are not those of its kind: a 500 without a reason."""
    group = call.resource.group
    version = f"{group}/{call.version}" if group else f"/{call.version}"
    meta, path, at = obj.get("metadata") or {}, "", obj
    for part, index in re.findall(r"([^.\[\]]+)|\[(\d+)\]", where):
        at = (at[int(index)] if index else at.get(part)) if isinstance(at, dict | list) else None
        named = at.get("name") if index and isinstance(at, dict) else None
        path += f"[name={orjson.dumps(named).decode()}]" if named else f"[{index}]" if index else f".{part}"
    about = f"{meta.get('namespace', '')}/{meta.get('name', call.name)}; {version}, Kind={call.resource.kind}"
    return Refused(500, f"failed to create typed patch object ({about}): {path}: {why}", reason=None)


def _shapeless(call: Call, obj: Obj, wrong: list[Wrong]) -> Refused:
    resource = call.resource
    causes = [
        (
            where,
            "FieldValueTypeInvalid",
            f'Invalid value: "{there}": {where} in body must be of type {wanted}: "{there}"',
        )
        for where, there, wanted in wrong
    ]
    return refusals.unshaped(
        resource.kind, resource.group, obj.get("metadata", {}).get("name", call.name), causes
    )


def _walk(value: Any, schema: Schema, at: str, unknown: list[str], wrong: list[Wrong]) -> Any:
    form = schemas.form(schema)
    if form == "any" or value is None:
        return value
    there = _JSON.get(type(value), "object")
    if form in ("object", "map"):
        if there != "object":
            wrong.append((at, there, "object"))
            return value
        if form == "map":
            inner = schemas.inner(schema)
            return {
                key: _walk(one, inner, f"{at}.{key}" if at else key, unknown, wrong)
                for key, one in value.items()
            }
        known = schemas.fields(schema)
        result = {}
        for key, one in value.items():
            where = f"{at}.{key}" if at else key
            if key not in known:
                unknown.append(where)
            else:
                result[key] = _walk(one, known[key], where, unknown, wrong)
        return result
    if form == "array":
        if there != "array":
            wrong.append((at, there, "array"))
            return value
        inner = schemas.inner(schema)
        return [_walk(one, inner, f"{at}[{number}]", unknown, wrong) for number, one in enumerate(value)]
    if not _is(form, there):
        wrong.append((at, there, form))
    return value


def _is(form: str, there: str) -> bool:
    if form == "scalar":
        return there in ("string", "integer", "number")
    return form == there or (form == "number" and there == "integer")


def _nulls(value: Any, schema: Schema, at: str, wrong: list[Wrong]) -> None:
    form = schemas.form(schema)
    if value is None:
        if form not in ("any", "scalar"):
            wrong.append((at, "null", {"map": "object"}.get(form, form)))
        return
    if isinstance(value, list) and form == "array":
        for number, one in enumerate(value):
            _nulls(one, schemas.inner(schema), f"{at}[{number}]", wrong)
    if isinstance(value, dict) and form in ("object", "map"):
        known = schemas.fields(schema) if form == "object" else None
        for key, one in value.items():
            inner = schemas.inner(schema) if known is None else known.get(key)
            if inner is not None:
                _nulls(one, inner, f"{at}.{key}" if at else key, wrong)
