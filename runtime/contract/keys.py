"""The key of a benchmark: a hash of all that decides what is measured, the same over versions and machines."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from runtime.contract.disruption import Disruption
from runtime.contract.generators import find
from runtime.contract.options import REQUIRED
from runtime.contract.suite import BenchmarkSpec, CheckpointSpec, MeshSpec, PageCache


def benchmark_key(
    item: BenchmarkSpec,
    options: Mapping[str, Any],
    mesh: MeshSpec | None,
    checkpoint: CheckpointSpec,
    page_cache: PageCache = "",
) -> str:
    """Returns 16 hex digits of the SHA-256 of everything that decides what is measured, as canonical JSON.

    Options that have their default are left out, so that a new option does not change old keys; likewise
    axes of size 1. Repeats, deadlines and labels do not count: they do not change what one sample means.
    """
    generator = find(item.generator)
    defaults = {option.name: option.default for option in generator.options} if generator else {}
    identity = {
        "generator": item.generator,
        "implementation": item.implementation,
        "definition": generator.definition if generator and item.implementation == "native" else 1,
        "options": {name: value for name, value in options.items() if value != defaults.get(name, REQUIRED)},
        "mesh": None if mesh is None else canonical_mesh(mesh),
        "checkpoint": _without_defaults(checkpoint),
    }
    if item.disruption is not None:  # no key of its own where there is none: it would change all old keys
        identity["disruption"] = _without_defaults(item.disruption)
    if page_cache:
        identity["page_cache"] = page_cache
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def plain(value: Any) -> Any:
    """Returns a spec as JSON can hold it: mappings, lists and scalars."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def canonical_mesh(mesh: MeshSpec) -> dict[str, Any]:
    """Returns a mesh as its key has it: without axes of size 1, which change nothing."""
    dcn = mesh.dcn_parallelism
    fields = _without_defaults(mesh)
    fields["ici_parallelism"] = {axis: size for axis, size in mesh.ici_parallelism.items() if size > 1}
    if dcn is not None:
        fields["dcn_parallelism"] = {axis: size for axis, size in dcn.items() if size > 1}
    return fields


def _without_defaults(spec: MeshSpec | CheckpointSpec | Disruption) -> dict[str, Any]:
    return {
        field.name: plain(getattr(spec, field.name))
        for field in dataclasses.fields(spec)
        if getattr(spec, field.name) != field.default
    }
