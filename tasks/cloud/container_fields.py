"""Requests to GKE's API as plain data, with the API's own names: checked before anything is asked for.

Fields that a user passes through by their path are put in here; one that the API does not have is refused.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Literal

from runtime.contract.errors import BadInput
from runtime.contract.nearest import nearest

Kind = Literal["cluster", "pool"]
Fields = Mapping[str, Any]


def with_fields(kind: Kind, request: Fields, more: Fields, flag: str) -> dict[str, Any]:
    """Returns the request with what `more` says under paths (`network_config.datapath_provider`) put in.

    Raises BadInput, naming `flag`, for a path that the API does not have and for what we set ourselves.
    """
    changed: dict[str, Any] = copy.deepcopy(dict(request))
    for path, value in more.items():
        steps = path.split(".")
        _check_path(kind, steps, path, flag)
        if steps[0] in ("name", "resource_labels") or steps[:2] == ["config", "resource_labels"]:
            raise BadInput(f"{flag} {path}: that is set by slicebench itself", fix="leave it out")
        wanted = _read(value, f"{flag} {path}")
        alone: dict[str, Any] = {}
        _put(alone, steps, wanted)
        _put(changed, steps, wanted)
        for request in (alone, changed):
            try:
                message_of(kind, request)
            except ValueError as error:
                raise BadInput(f"{flag} {path}: {value!r} does not fit there: {error}") from None
    return changed


def message_of(kind: Kind, request: Fields) -> Any:
    """Returns the API's message of a request. Raises ValueError in the words of its parser."""
    from google.protobuf import json_format

    try:
        return json_format.ParseDict(request, _type(kind)())
    except json_format.ParseError as error:
        raise ValueError(str(error)) from error


def _type(kind: Kind) -> Any:
    from google.cloud import container_v1

    message: Any = container_v1.Cluster if kind == "cluster" else container_v1.NodePool
    return lambda: message.pb(message())


def _check_path(kind: Kind, steps: list[str], path: str, flag: str) -> None:
    """Raises BadInput, with the nearest name, for a step that is no field there."""
    descriptor = _type(kind)().DESCRIPTOR
    for index, step in enumerate(steps):
        if descriptor is None:
            raise BadInput(f"{flag} {path}: {'.'.join(steps[:index])} has no fields of its own")
        found = descriptor.fields_by_name.get(step)
        if found is None:
            near = nearest(step, list(descriptor.fields_by_name))
            where = f"{descriptor.name}" if index == 0 else f"{'.'.join(steps[:index])} ({descriptor.name})"
            fix = (
                f"did you mean {near!r}?"
                if near
                else "see the reference of the API container.googleapis.com v1"
            )
            raise BadInput(f"{flag} {path}: {where} has no field {step!r}", fix=fix)
        descriptor = found.message_type
        if descriptor is not None and descriptor.GetOptions().map_entry:
            return  # whatever keys there are


def _put(into: dict[str, Any], steps: list[str], value: Any) -> None:
    for step in steps[:-1]:
        inner = into.setdefault(step, {})
        if not isinstance(inner, dict):
            inner = into[step] = {}
        into = inner
    into[steps[-1]] = value


def _read(value: Any, where: str) -> Any:
    """Returns what a text on a command line stands for: YAML, as in a file. Raises BadInput."""
    if not isinstance(value, str):
        return value
    import yaml

    try:
        return yaml.safe_load(value)
    except yaml.YAMLError as error:
        why = getattr(error, "problem", None) or error
        raise BadInput(f"{where}: {value!r} is no value: {why}", fix="quote it as in a YAML file") from None
