"""How a run is laid over this machine: workers, devices, slices, bytes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runtime.contract.errors import BadInput, Problem
from tasks.config.target import LocalTargetConfig
from tasks.targets import local_plan
from tasks.targets.local_preflight import Machine, look, preflight
from tasks.targets.types import Plan
from tests.tasks.targets.local_runs import point, spec

MIB = 2**20


def config(**fields: object) -> LocalTargetConfig:
    return LocalTargetConfig.model_validate({"kind": "local", **fields})


@pytest.mark.parametrize(
    ("fields", "wanted", "workers", "devices"),
    [
        ({}, 4, 2, 2),
        ({}, None, 2, 1),
        ({}, 1, 1, 1),
        ({}, 3, 1, 3),
        ({"workers": 4}, 6, 3, 2),
        ({"workers": 4, "slices": 2}, 6, 2, 3),
        ({"workers": 4, "devices_per_worker": 3}, 8, 4, 3),
    ],
)
def test_devices_are_divided_over_workers(
    fields: dict[str, object], wanted: int | None, workers: int, devices: int
) -> None:
    warnings: list[Problem] = []
    assert local_plan.divide(config(**fields), wanted, warnings) == (workers, devices)
    asked = config(**fields).workers
    assert len(warnings) == (1 if workers < asked else 0)


def test_slices_share_workers_evenly_or_not_at_all() -> None:
    with pytest.raises(BadInput, match=r"3 workers .* evenly over 2 slices, use 4 workers"):
        local_plan.divide(config(workers=3, slices=2), 4)
    with pytest.raises(BadInput, match="3 devices, which 2 slices cannot share evenly"):
        local_plan.divide(config(workers=2, slices=2), 3)


def plan_of(*points: object, **fields: object) -> Plan:
    return local_plan.plan(spec("/out", points=points, target=config(**fields)), "here", "/scratch/run-1")  # type: ignore[arg-type]


def test_the_plan_names_all_it_would_make() -> None:
    plan = plan_of(point(devices=4, shape=(1024, 1024)), point(1, devices=4, shape=(2, 2)))
    assert (plan.workers, plan.devices_per_worker, plan.slices, plan.platform) == (2, 2, 1, "cpu")
    assert [ref.kind for ref in plan.resources] == ["directory", "process", "process"]
    assert (plan.bytes_per_save, plan.price_per_hour, plan.output, plan.warnings) == (
        4 * MIB,
        0.0,
        "/out",
        (),
    )


def test_points_that_do_not_fit_are_warned_of_and_none_that_fits_is_refused() -> None:
    plan = plan_of(point(devices=4), point(1, devices=4), point(2, devices=8))
    (told,) = plan.left_out
    assert (told.severity, told.why) == ("warning", "mesh x 8 takes 8 devices, the target has 4")
    assert told.what.startswith("1 of 3 benchmarks left out")
    with pytest.raises(BadInput, match="no mesh fits the target"):
        plan_of(point(devices=4), devices_per_worker=3)


ROOMY = Machine(memory=2**40, disk=2**40, processors=64, gpus=8)
PLAN = plan_of(point(devices=4, shape=(1024, 1024)))


@pytest.mark.parametrize(
    ("plan", "machine", "told"),
    [
        (PLAN, ROOMY, []),
        (PLAN, replace(ROOMY, disk=None), []),
        (PLAN, replace(ROOMY, disk=3 * MIB), ["disk is short"]),
        (PLAN, replace(ROOMY, disk=5 * MIB), ["warning: disk is short"]),
        (PLAN, replace(ROOMY, memory=800 * MIB), ["memory is short"]),
        (PLAN, replace(ROOMY, memory=806 * MIB), ["warning: memory is short"]),
        (PLAN, replace(ROOMY, processors=1), ["warning: 2 workers share 1 processors"]),
        (replace(PLAN, platform="gpu"), ROOMY, []),
        (replace(PLAN, platform="gpu"), replace(ROOMY, gpus=3), ["4 GPUs are needed, a run may use 3 here"]),
    ],
)
def test_preflight(plan: Plan, machine: Machine, told: list[str]) -> None:
    problems = [str(problem) for problem in preflight(plan, machine)]
    assert len(problems) == len(told)
    assert all(problem.startswith(start) for problem, start in zip(problems, told, strict=True)), problems


def test_looking_at_this_machine(tmp_path: object) -> None:
    machine = look(f"{tmp_path}/not/yet/there")
    assert machine.memory > 0
    assert machine.disk is not None
    assert machine.processors > 0
    assert look("gs://bucket/runs").disk is None
