"""Stage *provision*: the plan is looked over, then hardware is adopted or made, through the lease."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from runtime.contract.counting import counted
from runtime.contract.errors import Problem, refusal
from tasks.config.gke_target import GkeTargetConfig
from tasks.config.spec import RunSpec
from tasks.leases.holding import Holding
from tasks.leases.keeping import by_list_prices
from tasks.leases.locks import lock
from tasks.stages.context import Run
from tasks.stages.used import used_of, with_before
from tasks.targets.protocol import Target
from tasks.targets.types import Plan, Workers

_NOT_SHAPE = {"limits", "valid_after", "valid_until"}
"""Fields of targets that say how hardware is waited for, not what it is like."""


_SHAPE_OF_A_CLUSTER: Any = {
    "kind": True, "context": True, "type": True, "topology": True, "slices": True, "nodes": True,
    "cluster": {"name": True, "project": True, "location": True, "zone": True, "capacity": True, "reservations": True},
}  # fmt: skip


def shape_of(run: Run) -> Mapping[str, str]:
    """Returns what hardware must be like to serve this run: every field of its target that says so, as text."""
    target = run.spec.target
    if isinstance(target, GkeTargetConfig):  # the rest says what pods are like
        fields = target.model_dump(mode="json", include=_SHAPE_OF_A_CLUSTER)
    else:
        fields = target.model_dump(mode="json", exclude=_NOT_SHAPE)
    return {name: str(value) for name, value in fields.items() if value is not None}


def look_over(target: Target, plan: Plan, spec: RunSpec) -> list[Problem]:
    """Returns what stands against a run on this target, and that nobody looked when that was asked for."""
    if not spec.skip_preflight:
        return [*plan.warnings, *target.preflight(plan)]
    skipped = Problem(
        "warning", None, f"target {spec.target_name} is not looked over first, as asked (skip_preflight)"
    )
    return [*plan.warnings, skipped]


def provision(run: Run, lease: Holding) -> Workers:
    """Returns the workers. Called again it adopts what the lease already has.

    Raises BadInput, with every problem found, before anything is made; InfrastructureError where nobody answers.
    """
    plan = run.plan
    problems = look_over(run.target, plan, run.spec)
    errors = [problem for problem in problems if problem.severity == "error"]
    if errors:
        raise refusal(errors)
    for problem in problems:
        run.say(str(problem))
    for scope, name in plan.locks:
        lock(lease, scope, name, wait_s=run.spec.wait_for_lock_s, say=run.say)
    lease.describe(shape_of(run), plan.price_per_hour)
    asked_at = time.time()
    workers = run.target.acquire(plan, lease)
    count, each = len(workers.items), workers.devices_per_worker
    run.say(f"{counted(count, 'worker')} x {counted(each, f'{workers.platform} device')} = {count * each}")
    used = used_of(run.spec.target, lease, plan.price_per_hour, asked_at)
    lease.describe(shape_of(run), used.price_per_hour)
    if used.words:
        run.say(f"{used.words}: {by_list_prices(used.price_per_hour)}")
    told = with_before(run.marker("provision"), used)
    run.mark("provision", lease_id=lease.lease.lease_id, workers=asdict(workers), used=told)
    return workers
