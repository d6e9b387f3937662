"""What would stop a run on Cloud TPU: access, zones, types, versions, what holds quota, names taken; each with its fix.

One set of checks: a run asks them before anything is made, and doctor of a target before there is a run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial

from runtime.contract.errors import BadInput, Problem
from runtime.contract.nearest import nearest
from tasks.cloud.tpu import CloudTpu
from tasks.cloud.tpu_errors import NotFound, PermissionDenied, TpuError, Unavailable
from tasks.cloud.tpu_model import GONE_BUT_THERE, NEVER_ACTIVE, Queued
from tasks.config.tpu_target import TpuVmTargetConfig
from tasks.leases.tpu_entries import refuse_os_login
from tasks.leases.tpus import QUEUED
from tasks.targets import tpu_iap
from tasks.targets.tpu_capacity import find, nodes_of
from tasks.targets.tpu_hosts import check_adopted
from tasks.targets.types import Plan

_DISABLED = re.compile(r"has not been used in project|it is disabled|SERVICE_DISABLED", re.IGNORECASE)
_NOBODY = re.compile(
    r"UNAUTHENTICATED|invalid authentication|no Google credentials|log in again", re.IGNORECASE
)


def preflight(tpu: CloudTpu, config: TpuVmTargetConfig, plan: Plan) -> list[Problem]:
    """Returns what is wrong, zone by zone. An error where no zone can serve, a warning where another still can."""
    if missing := way_problems(config):
        return missing
    if config.existing is not None:
        return standing_problems(tpu, config, config.existing)
    by_zone = {zone: zone_problems(tpu, config, zone) for zone in config.zones}
    good = [
        zone for zone, problems in by_zone.items() if not any(one.severity == "error" for one in problems)
    ]
    problems = [problem for found in by_zone.values() for problem in found]
    if good:
        fix = f"{', '.join(good)} remain"
        problems = [Problem("warning", one.place, one.what, one.why, one.fix or fix) for one in problems]
    return [*problems, *_taken(tpu, good, plan)]


def way_problems(config: TpuVmTargetConfig) -> list[Problem]:
    """Returns what the way into workers lacks on this machine."""
    return tpu_iap.lacking() if config.addresses == "iap" else []


def standing_problems(tpu: CloudTpu, config: TpuVmTargetConfig, name: str) -> list[Problem]:
    """Returns what keeps a run from what exists: it may not look, it is not there, will not run again, is another
    type, or lets nobody in by a key. What is still on its way is a warning: the run waits for it.
    """
    try:
        found = find(tpu, config.zones, name)
        nodes = nodes_of(tpu, found)
    except BadInput as error:
        return list(error.problems)
    except TpuError as error:
        return [_as_problem(error, tpu)]
    dead = NEVER_ACTIVE if isinstance(found, Queued) else GONE_BUT_THERE
    for one, ends in ((found, dead), *((node, GONE_BUT_THERE) for node in nodes)):
        if one.state in ends:
            what = f"{one.name} in {one.zone} is {one.state}: nothing will run there any more"
            return [
                Problem(
                    "error", None, what, fix="name another (see slicebench tpu list), or leave existing: out"
                )
            ]
    if isinstance(found, Queued) and found.state != "ACTIVE":
        return [Problem("warning", None, f"queued resource {name} is {found.state}: the run waits for it")]
    checks: list[Callable[[], None]] = [partial(check_adopted, config, nodes)]
    checks += [partial(refuse_os_login, node) for node in nodes]
    problems: list[Problem] = []
    for check in checks:
        try:
            check()
        except BadInput as error:
            problems += error.problems
    coming = [node for node in nodes if node.state != "READY"]
    return problems + [
        Problem("warning", None, f"{node.name} is {node.state}: the run waits for it") for node in coming
    ]


def zone_problems(tpu: CloudTpu, config: TpuVmTargetConfig, zone: str) -> list[Problem]:
    """Returns errors for what a zone does not let us do or does not offer, and warnings for what holds quota there."""
    try:
        types, queued = tpu.types(zone), tpu.queued(zone)
        versions = tpu.runtime_versions(zone) if config.runtime_version else ()
    except TpuError as error:
        return [_as_problem(error, tpu)]
    problems = []
    if config.type not in types:
        what = f"{config.type} is not offered in {zone}"
        problems.append(Problem("error", None, what, fix=_offered(config.type, types)))
    if config.runtime_version and config.runtime_version not in versions:
        near = nearest(config.runtime_version, versions)
        what = f"runtime version {config.runtime_version} is not offered in {zone}"
        fix = f"did you mean {near}?" if near else "leave runtime_version out: it follows from the type"
        problems.append(Problem("error", None, what, fix=fix))
    for dead in [one for one in queued if one.state in ("FAILED", "SUSPENDED")]:
        what = f"queued resource {dead.name} is {dead.state} and still holds quota"
        fix = f"gcloud compute tpus queued-resources delete {dead.name} --force --zone {zone} --project {tpu.project}"
        problems.append(Problem("warning", None, what, fix=fix))
    return problems


def fix_of(error: Exception, project: str) -> str:
    """Returns the command that mends an error of the API. Pure. 403 is never taken for 404."""
    text = str(error)
    if isinstance(error, PermissionDenied):
        if _NOBODY.search(text):
            return "gcloud auth application-default login"
        if _DISABLED.search(text.split(": log in")[0]):
            return f"gcloud services enable tpu.googleapis.com --project={project}"
        return f"gcloud projects add-iam-policy-binding {project} --member=user:YOU --role=roles/tpu.admin"
    if isinstance(error, NotFound):
        return f"gcloud compute tpus locations list --project={project}"
    return "curl -sS -o /dev/null -w '%{http_code}' https://tpu.googleapis.com"


def _offered(name: str, types: Sequence[str]) -> str:
    if near := nearest(name, types):
        return f"it has {near}"
    family = name.partition("-")[0]
    offered = [one for one in types if one.startswith(f"{family}-")]
    return f"it has {', '.join(offered)}" if offered else f"no {family} is there"


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
                problems.append(_as_problem(error, tpu))
                continue
            what = f"{ref.name} is there already in {zone}, {there.state}"
            why = "the run goes on with it if it is its own"
            if there.state == "DELETING":
                why = "the run waits until it is gone"
            problems.append(Problem("warning", None, what, why))
    return problems


def _as_problem(error: TpuError, tpu: CloudTpu) -> Problem:
    fix = fix_of(error, tpu.project)
    return Problem("error", None, str(error), fix=fix, unanswered=isinstance(error, Unavailable))
