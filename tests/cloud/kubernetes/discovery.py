"""What the API server says about itself: versions, groups, and the kinds in them."""

from __future__ import annotations

from typing import Any

from tests.cloud.kubernetes import openapi
from tests.cloud.kubernetes.resources import Registry, Resource

_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]

VERSION = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.0-standin",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "2026-04-22T00:00:00Z",
    "goVersion": "go1.26",
    "compiler": "gc",
    "platform": "linux/amd64",
}


def answer(path: str, registry: Registry) -> dict[str, Any] | str | None:
    """Returns what a path of discovery or health answers; None for any other path."""
    parts = [part for part in path.split("/") if part]
    if parts[:1] == ["openapi"]:
        return openapi.answer(path, registry)
    match parts:
        case ["version"]:
            return VERSION
        case ["healthz" | "livez" | "readyz", *_]:
            return "ok"
        case ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
        case ["api", "v1"]:
            return _resources("", "v1", registry)
        case ["apis"]:
            groups = sorted({one.group for one in registry.all if one.group})
            return {
                "kind": "APIGroupList",
                "apiVersion": "v1",
                "groups": [_group(one, registry) for one in groups],
            }
        case ["apis", group] if any(one.group == group for one in registry.all):
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(group, registry)}
        case ["apis", group, version] if version in _versions(group, registry):
            return _resources(group, version, registry)
    return None


def _versions(group: str, registry: Registry) -> list[str]:
    found: dict[str, None] = {}
    for one in registry.all:
        if one.group == group:
            found |= dict.fromkeys((one.version, *one.older))
    return list(found)


def _group(group: str, registry: Registry) -> dict[str, Any]:
    versions = [
        {"groupVersion": f"{group}/{version}", "version": version} for version in _versions(group, registry)
    ]
    return {"name": group, "versions": versions, "preferredVersion": versions[0]}


def _resources(group: str, version: str, registry: Registry) -> dict[str, Any]:
    listed: list[dict[str, Any]] = []
    for one in registry.all:
        if one.group == group and version in (one.version, *one.older):
            listed.append(_entry(one, one.plural, _VERBS))
            if one.status:
                listed.append(_entry(one, f"{one.plural}/status", ["get", "patch", "update"]))
            if one.qualified == "pods":
                listed.append(_entry(one, "pods/log", ["get"]))
                listed.append(_entry(one, "pods/eviction", ["create"]))
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": listed,
    }


def _entry(one: Resource, name: str, verbs: list[str]) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": name,
        "singularName": one.kind.lower() if "/" not in name else "",
        "namespaced": one.namespaced,
        "kind": one.kind,
        "verbs": verbs,
    }
    if one.short and "/" not in name:
        entry["shortNames"] = list(one.short)
    return entry
