"""Asks a cluster what the Secrets of a workload hold, so that it can be taken out of all that is told of it."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tasks.cloud.kubernetes_errors import KubernetesError
from tasks.cloud.kubernetes_kinds import SECRET
from tasks.stages.workload_desk import Desk
from tasks.targets.kube_objects import Object


@dataclass
class Held:
    """What Secrets hold, the names of variables that get it, and which Secrets could not be read, and why."""

    values: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    unknown: list[str] = field(default_factory=list)


def held(desk: Desk, objects: Iterable[Object | None]) -> Held:
    """Returns what all Secrets hold that pods of some objects have variables or folders of."""
    found = Held()
    prefixes: dict[str, set[str]] = {}
    for one in objects:
        for secret, variable, prefix in _used(one):
            before = prefixes.setdefault(secret, set())
            if prefix is not None:
                before.add(prefix)
            if variable:
                found.names.add(variable)
    for secret, before in sorted(prefixes.items()):
        data = _data(desk, secret, found.unknown)
        found.names.update(f"{prefix}{key}" for prefix in before for key in data)
        found.values.update(map(_decoded, data.values()))
    return found


def _used(one: Any) -> Iterator[tuple[str, str, str | None]]:
    """Yields the names of Secrets in an object, each with the variable of its value, or what is before all names."""
    if isinstance(one, list | tuple):
        for part in one:
            yield from _used(part)
    if not isinstance(one, Mapping):
        return
    of = (
        (one.get("valueFrom") or {}).get("secretKeyRef")
        if isinstance(one.get("valueFrom"), Mapping)
        else None
    )
    if isinstance(of, Mapping):
        yield str(of.get("name")), str(one.get("name") or ""), None
    elif isinstance(of := one.get("secretRef"), Mapping):
        yield str(of.get("name")), "", str(one.get("prefix") or "")
    elif isinstance(of := one.get("secret"), Mapping) and (named := of.get("secretName") or of.get("name")):
        yield str(named), "", None
    for part in one.values():
        yield from _used(part)


def _data(desk: Desk, secret: str, unknown: list[str]) -> Mapping[str, str]:
    try:
        found = desk.kube.find(SECRET, secret, desk.namespace)
        why = "it is gone"
    except KubernetesError as error:
        found, why = None, str(error)
    if found is None:
        unknown.append(
            f"what Secret {secret} holds could not be taken out of logs where no name stands before it: {why}"
        )
        return {}
    return found.get("data") or {}


def _decoded(value: str) -> str:
    try:
        return base64.b64decode(value).decode("utf-8", "surrogateescape")
    except binascii.Error:
        return value
