"""Flags of `slicebench workload create` that go beyond the plain ones, or onto a target file: judged by the model."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from flows.cli.workload_flags import flags
from runtime.contract.errors import BadInput, Problem
from tasks.config.as_flags import Flags
from tasks.config.findings import checked
from tasks.config.gke_target import GkeTargetConfig
from tasks.config.load import load_target
from tasks.config.locate import locate

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

_UNITS = {flag: "s" for field, flag in _FLAGS.items() if field.startswith("limits.")}


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
    spelling = _as_flags()
    try:
        return checked(GkeTargetConfig, merged, spelling)
    except BadInput as error:
        raise BadInput([_in_a_file(one, spelling) for one in error.problems]) from None


def _in_a_file(problem: Problem, spelling: Flags) -> Problem:
    """Returns what is wrong with, where it speaks of fields that no flag stands for, where one writes these."""
    fields = GkeTargetConfig.model_fields.keys() - set(spelling.words)
    spoken = sorted(name for name in fields if "_" in name and re.search(rf"\b{name}\b", problem.what))
    where = f"{' and '.join(spoken)} {'is' if len(spoken) == 1 else 'are'} written in a file, for --target"
    return problem if not spoken or problem.fix else replace(problem, fix=where)


def in_flags(error: BadInput) -> BadInput:
    """Returns what a cluster has against it, with what to do about it in the spelling of the flags."""
    spelling = _as_flags()
    return BadInput([replace(one, fix=one.fix and spelling.sentence(one.fix)) for one in error.problems])


def _as_flags() -> Flags:
    """Returns how fields are told; those for which there is no flag, only a file can have."""
    known, spelling = flags(), Flags(_FLAGS)
    words = [name for name in GkeTargetConfig.model_fields if spelling.name((name,)) in known]
    return Flags(_FLAGS, words, _UNITS)
