"""Flags of `slicebench workload create` that go beyond the plain ones, or onto a target file: judged by the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pydantic

from flows.cli.workload_flags import flags
from runtime.contract.errors import BadInput, Problem
from tasks.config.gke_target import GkeTargetConfig
from tasks.config.load import load_target
from tasks.config.locate import locate
from tasks.config.wording import of_flag, spelled

_FLAGS = {
    "limits.workload_s": "--deadline",
    "limits.termination_grace_s": "--grace",
    "limits.ttl_s": "--ttl",
    "debug_dump.to": "--debug-dump-gcs",
    "ramdisk.directory": "--ramdisk-directory",
    "restart_exit_codes": "--restart-on-exit-codes",
    "cluster.name": "--cluster",
    "cluster.location": "--location",
    "cluster.project": "--project",
}
"""Flags that are not called as their fields are."""


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
        raise BadInput([Problem("error", None, _told(one)) for one in error.errors()]) from None


def _told(error: Mapping[str, Any]) -> str:
    """Returns one of pydantic's findings, of the flag as it is typed."""
    field = ".".join(map(str, error["loc"][:2]))
    if error["type"] == "value_error":
        told = spelled(str(error["ctx"]["error"]), _flag_of)
        return f"{_flag(field)}: {told}" if field else told
    return of_flag(error, _flag(field), "s" if field.startswith("limits.") else "")


def _flag(field: str) -> str:
    return _FLAGS.get(field, f"--{field.partition('.')[0].replace('_', '-')}")


def _flag_of(word: str) -> str | None:
    """Returns the flag for a word of a sentence; None: it is no field, or a target file alone can say it."""
    return flag if word in GkeTargetConfig.model_fields and (flag := _flag(word)) in flags() else None
