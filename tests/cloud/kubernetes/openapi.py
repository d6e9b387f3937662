"""As much of the API's own description as kubectl looks at: which kinds there are, and that fields are checked."""

from __future__ import annotations

from typing import Any

from tests.cloud.kubernetes.resources import Registry, Resource

_ROOT = "/openapi/v3"


def answer(path: str, registry: Registry) -> dict[str, Any] | None:
    """Returns what a path of the description answers; None for any other path."""
    if path.rstrip("/") == _ROOT:
        places = sorted(
            {_place(one, version) for one in registry.all for version in (one.version, *one.older)}
        )
        return {"paths": {one: {"serverRelativeURL": f"{_ROOT}/{one}?hash=1"} for one in places}}
    if not path.startswith(f"{_ROOT}/"):
        return None
    place = path.removeprefix(f"{_ROOT}/")
    described = {
        f"/{place}/{one.plural}/{{name}}": {"patch": _patch(one, version)}
        for one in registry.all
        for version in (one.version, *one.older)
        if _place(one, version) == place
    }
    info = {"title": "Kubernetes", "version": "v1.36.0"}
    return {"openapi": "3.0.0", "info": info, "paths": described, "components": {"schemas": {}}}


def _place(one: Resource, version: str) -> str:
    return f"apis/{one.group}/{version}" if one.group else f"api/{version}"


def _patch(one: Resource, version: str) -> dict[str, Any]:
    return {
        "operationId": f"patch{one.kind}",
        "parameters": [{"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}],
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": {"group": one.group, "version": version, "kind": one.kind},
    }
