"""Flags of `slicebench workload create` that go beyond the plain ones, or onto a target file: judged by the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pydantic

from runtime.contract.errors import BadInput, Problem
from tasks.config.gke_target import GkeTargetConfig
from tasks.config.load import load_target
from tasks.config.locate import locate


def modelled(
    target: str | None,
    cluster: str | None,
    location: str | None,
    project: str | None,
    fields: Mapping[str, Any],
) -> GkeTargetConfig:
    """Returns the target of a file with what flags say in place of it, or of flags alone. Raises BadInput."""
    base: dict[str, Any] = {"kind": "gke"}
    if target is not None:
        config = load_target(locate(target, "targets"))
        if not isinstance(config, GkeTargetConfig):
            raise BadInput(f"--target {target} is of kind {config.kind}, which has no workloads in a cluster")
        base = config.model_dump(exclude_unset=True)
        if "type" in fields:
            base.pop("platform", None)
    if cluster is not None:
        place = {"name": cluster, "location": location, "project": project, "create": "never"}
        base["cluster"] = {name: value for name, value in place.items() if value is not None}
    merged = {**base, **fields}
    for part in ("limits", "ramdisk", "debug_dump", "ops_agent"):
        if isinstance(base.get(part), Mapping) and part in fields:
            merged[part] = {**base[part], **fields[part]}
    try:
        return GkeTargetConfig.model_validate(merged)
    except pydantic.ValidationError as error:
        problems = [
            Problem("error", None, f"{'.'.join(map(str, one['loc'])) or 'workload create'}: {_words(one)}")
            for one in error.errors()
        ]
        raise BadInput(problems) from None


def _words(detail: Any) -> str:
    if detail["type"] == "value_error":
        return str(detail["ctx"]["error"])
    return str(detail["msg"])
