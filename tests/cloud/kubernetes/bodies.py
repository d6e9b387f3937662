"""The bodies of requests: JSON or YAML, and what a wrong one is told."""

from __future__ import annotations

import re
from typing import Any

import orjson
import yaml

from tests.cloud.kubernetes.calls import Call
from tests.cloud.kubernetes.refusals import Refused

_NAME = re.compile(rb'"name"\s*:\s*"([^"]+)"')


def required(body: bytes) -> bytes:
    """Returns a body that is there."""
    if not body:
        raise Refused(400, "EOF")
    return body


def name_in(body: bytes) -> str:
    """Returns the name that a new object's body gives, for faults that wait for one; empty for none."""
    if not body:
        return ""
    try:
        told = orjson.loads(body)
    except orjson.JSONDecodeError:
        match = _NAME.search(body)
        return match[1].decode() if match else ""
    meta = told.get("metadata") if isinstance(told, dict) else None
    return str((meta or {}).get("name") or (meta or {}).get("generateName") or "")


def decoded(body: bytes, *, as_yaml: bool = False) -> Any:
    """Returns a body's content."""
    try:
        return yaml.safe_load(body) if as_yaml else orjson.loads(body)
    except (orjson.JSONDecodeError, yaml.YAMLError) as error:
        raise Refused(400, f"couldn't get version/kind; json parse error: {error}") from None


def object_for(call: Call, told: Any) -> dict[str, Any]:
    """Returns an object that fits the path it was sent to."""
    if not isinstance(told, dict):
        raise Refused(
            400, "couldn't get version/kind; json parse error: json: cannot unmarshal into Go value"
        )
    group = call.resource.group
    expected = f"{group}/{call.version}" if group else call.version
    if not call.resource.custom and call.verb == "create":  # what is built in says what it is by its path
        told = {
            **told,
            "apiVersion": told.get("apiVersion") or expected,
            "kind": told.get("kind") or call.resource.kind,
        }
    sent = told.get("apiVersion", "")
    if not sent or not told.get("kind"):
        raise Refused(400, f"Object 'Kind' is missing in '{orjson.dumps(told).decode()[:200]}'")
    if sent != expected:
        told_is = f"the API version in the data ({sent}) does not match the expected API version ({expected})"
        raise Refused(400, told_is)
    if told["kind"] != call.resource.kind:
        told_is = f"{told['kind']} in version {sent!r} cannot be handled as a {call.resource.kind}"
        raise Refused(400, told_is)
    meta = dict(told.get("metadata") or {})
    space = call.namespace
    if meta.get("namespace", space) != space:
        raise Refused(
            400, "the namespace of the provided object does not match the namespace sent on the request"
        )
    if space:
        meta["namespace"] = space
    else:
        meta.pop("namespace", None)
    if call.name and meta.get("name", call.name) != call.name:
        raise Refused(
            400, f"the name of the object ({meta['name']}) does not match the name on the URL ({call.name})"
        )
    if call.name:
        meta["name"] = call.name
    obj = {**told, "metadata": meta, "apiVersion": call.resource.api_version}
    return without_nulls(obj)


def without_nulls(value: Any) -> Any:
    """Returns an object without the keys that are null, as decoding drops them."""
    if isinstance(value, dict):
        return {key: without_nulls(one) for key, one in value.items() if one is not None}
    if isinstance(value, list):
        return [without_nulls(one) for one in value]
    return value
