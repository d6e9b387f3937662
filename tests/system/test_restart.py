"""Disruptions for real: JAX workers are killed after a checkpoint or within one, start again, and must resume."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.contract.job import Deadlines
from runtime.contract.overrides import apply_overrides
from runtime.contract.progress import Started, Step
from tests.runtime.supervised import Crew
from tests.system.prefect_station import PATIENCE_S, ROOT

pytestmark = pytest.mark.system

ALONE = """
suite_name: Alone
checkpoint_config: {spec: {a: {dtype: float32, shape: [64, 64]}}}
benchmarks:
"""


def item(generator: str, options: str, disruption: str) -> str:
    return f"  - {{generator: {generator}, options: {options}, disruption: {disruption}}}\n"


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[Crew]:
    made = Crew(tmp_path, workers=2)
    made.job = {
        "python": sys.executable,
        "suite": str(tmp_path / "suite.yaml"),
        "devices_per_worker": 2,
        "deadlines": Deadlines(init_s=PATIENCE_S, operation_s=PATIENCE_S),
    }
    yield made
    made.end()


def run(crew: Crew, text: str, *codes: int) -> None:
    (crew.folder / "suite.yaml").write_text(text)
    crew.start()
    assert crew.wait(2 * PATIENCE_S) == list(codes), crew.exited().cause
    crew.nothing_left(PATIENCE_S)


def samples(crew: Crew, worker: int) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq

    path = crew.folder / "run" / "results" / f"samples-a1-w{worker:04d}.parquet"
    found: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return found


def values(crew: Crew, worker: int, point: int, operation: str) -> dict[str, float]:
    return {
        one["metric"]: one["value"]
        for one in samples(crew, worker)
        if (one["point"], one["operation"]) == (point, operation)
    }


def resumed_from(crew: Crew, worker: int) -> list[int]:
    return [step.step for step in crew.bodies(Step, worker) if step.state == "resumed"]


def test_killed_workers_resume_from_the_newest_complete_checkpoint(crew: Crew) -> None:
    """By the suite that is shipped: killed between two steps, and in the middle of a save."""
    shipped = (ROOT / "configs" / "suites" / "restart.yaml").read_text()
    run(crew, apply_overrides(shipped, ["num_repeats=1"]), 0, 0)
    for worker in range(2):
        assert [body.first_point for body in crew.bodies(Started, worker)] == [0, 0, 1]
        assert list(crew.points_file(worker).values()) == [("passed", "")] * 2
        saved_before, killed_within = resumed_from(crew, worker)
        assert saved_before >= 2 and killed_within >= 2
    assert resumed_from(crew, 0) == resumed_from(crew, 1)
    recovery = values(crew, 1, 0, "recovery")
    parts = ("detection_s", "start_s", "setup_s", "restore_s", "first_step_s")
    assert recovery["time_s"] == pytest.approx(sum(recovery[part] for part in parts))
    assert all(recovery[part] > 0 for part in parts)
    assert recovery["resumed_from_step"] == resumed_from(crew, 1)[0]
    assert recovery["time_s"] < PATIENCE_S
    assert values(crew, 0, 0, "recovery") == {}, "worker 0 was not struck"
    assert values(crew, 0, 1, "recovery")["lost_steps"] >= 0
    identities = [
        (one["point"], one["operation"], one["metric"], one["repeat"], one["occurrence"])
        for one in samples(crew, 0)
    ]
    assert len(identities) == len(set(identities)), "no sample hides another"


@pytest.mark.parametrize(
    ("does", "disruption", "cause"),
    [
        ("does: right, awaits: true", "{at_step: 2}", ""),
        (
            "does: anew, awaits: true",
            "{at_step: 2}",
            "it did not resume after the disruption (SIGKILL to worker 0 once step 2 is saved)",
        ),
        ("does: older, awaits: true", "{at_step: 2}", "was complete"),
        ("does: lies, awaits: true", "{at_step: 2}", "restored leaf a is not what was saved"),
        (
            "does: right",
            "{after_s: 3600}",
            "the disruption did not happen (SIGKILL to worker 0 3600 s after the first step",
        ),
    ],
)
def test_only_a_benchmark_that_resumes_rightly_passes(
    crew: Crew, does: str, disruption: str, cause: str
) -> None:
    crew.workers, crew.job["devices_per_worker"] = 1, 1
    forgetful = item("tests.system.forgetful.Forgetful", f"{{{does}}}", disruption)
    run(crew, ALONE + forgetful, 1 if cause else 0)
    status, told = crew.points_file()[0]
    assert status == ("failed" if cause else "passed")
    assert cause in told
