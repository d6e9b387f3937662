"""What would stop a run on Cloud TPU, asked before anything is made: access, zones, types, versions, names taken."""

from __future__ import annotations

from collections.abc import Sequence

from runtime.contract.errors import Problem
from runtime.contract.yamlfile import nearest
from tasks.cloud.tpu import CloudTpu
from tasks.cloud.tpu_errors import NotFound, PermissionDenied, TpuError, Unavailable
from tasks.config.tpu_target import TpuVmTargetConfig
from tasks.leases.tpus import QUEUED
from tasks.targets import tpu_iap
from tasks.targets.types import Plan


def preflight(tpu: CloudTpu, config: TpuVmTargetConfig, plan: Plan) -> list[Problem]:
    """Returns what is wrong, zone by zone. An error where no zone can serve, a warning where another still can."""
    if config.addresses == "iap" and (missing := tpu_iap.lacking()):
        return missing
    if config.existing is not None:
        return []  # acquire looks for it, and adopts what it finds
    by_zone = {zone: _zone(tpu, config, zone) for zone in config.zones}
    good = [zone for zone, problems in by_zone.items() if not problems]
    problems = [problem for found in by_zone.values() for problem in found]
    if good:
        fix = f"{', '.join(good)} remain"
        problems = [Problem("warning", one.place, one.what, one.why, one.fix or fix) for one in problems]
    return [*problems, *_taken(tpu, good, plan)]


def _zone(tpu: CloudTpu, config: TpuVmTargetConfig, zone: str) -> list[Problem]:
    try:
        types = tpu.types(zone)
        versions = tpu.runtime_versions(zone) if config.runtime_version else ()
    except TpuError as error:
        return [Problem("error", None, str(error), fix=_fix(error, tpu.project))]
    problems = []
    if config.type not in types:
        near = nearest(str(config.type), types)
        family = str(config.type).partition("-")[0]
        offered = [name for name in types if name.startswith(f"{family}-")]
        fix = (
            f"it has {near}"
            if near
            else f"it has {', '.join(offered)}"
            if offered
            else f"no {family} is there"
        )
        problems.append(Problem("error", None, f"{config.type} is not offered in {zone}", fix=fix))
    if config.runtime_version and config.runtime_version not in versions:
        near = nearest(config.runtime_version, versions)
        what = f"runtime version {config.runtime_version} is not offered in {zone}"
        fix = f"did you mean {near}?" if near else "leave runtime_version out: it follows from the type"
        problems.append(Problem("error", None, what, fix=fix))
    return problems


def _taken(tpu: CloudTpu, zones: Sequence[str], plan: Plan) -> list[Problem]:
    """Warns of what stands in the way under the name that is to be made: it may be going, or another's."""
    problems = []
    for ref in plan.resources:
        for zone in zones:
            look = tpu.queued_resource if ref.kind == QUEUED else tpu.node
            try:
                there = look(zone, ref.name)
            except NotFound:
                continue
            except TpuError as error:
                problems.append(Problem("error", None, str(error), fix=_fix(error, tpu.project)))
                continue
            what = f"{ref.name} is there already in {zone}, {there.state}"
            problems.append(Problem("warning", None, what, "the run goes on with it if it is its own"))
    return problems


def _fix(error: TpuError, project: str) -> str:
    if isinstance(error, PermissionDenied):
        return (
            f"gcloud services enable tpu.googleapis.com --project {project}; and have roles/tpu.admin there; "
            "a zone that does not exist is told in the same words"
        )
    return "try again later" if isinstance(error, Unavailable) else ""
