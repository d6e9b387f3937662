"""Whether a suite fits a target, by their files alone: the part of `slicebench check` that looks at both."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from runtime.contract.counting import counted
from runtime.contract.errors import BadInput, Problem

_ANYWHERE = "gs://slicebench-check/runs"
"""An output that any target takes: where runs would be written says nothing about the fit."""


def fit_of(suite: str, target: str, overrides: Sequence[str]) -> tuple[tuple[Problem, ...], str]:
    """Returns what does not fit, and how many benchmarks do, in words. Asks nobody, makes nothing."""
    from tasks.config.request import RunRequest
    from tasks.stages.prepare import unplanned
    from tasks.targets.open import open_target

    asked = {"suite": suite, "target": target, "set": list(overrides), "output": _ANYWHERE}
    request = RunRequest.model_validate(asked)
    try:
        spec = unplanned(request, os.environ)
        planned = open_target(_in_some_project(spec.target)).plan(spec)
    except BadInput as error:
        return error.problems, ""
    return tuple(planned.left_out), f"{counted(len(planned.points), 'benchmark')} of it can run there"


def _in_some_project(config: Any) -> Any:
    """Returns a target with the names that its file leaves to the environment: what fits does not hang on them."""
    from tasks.config.gke_target import GkeTargetConfig
    from tasks.config.tpu_target import TpuVmTargetConfig

    if isinstance(config, GkeTargetConfig) and config.cluster is not None:
        place = config.cluster
        named = {"project": place.project or "any", "location": place.location or "us-central1-a"}
        return config.model_copy(update={"cluster": place.model_copy(update=named)})
    if isinstance(config, TpuVmTargetConfig):
        named_too = {"project": config.project or "any", "zones": config.zones or ("us-central1-a",)}
        return config.model_copy(update=named_too)
    return config
