"""What a benchmark has to do after a disruption, in this process: one that does not do it fails, and says why.

The kill is an error that nothing catches, raised where the worker tells of a step; tests/system/test_restart.py kills.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runtime import steps
from runtime.contract.expand import expand
from runtime.contract.progress import FromWorker, Step, StepState
from runtime.contract.results import PointResult, Sample
from runtime.contract.suite_reader import read_suite
from runtime.engine import Engine
from runtime.fitting import fit_here
from runtime.progress_out import ProgressWriter
from runtime.results_io import Journal
from runtime.settings import parse

MANAGER = "orbax.checkpoint._src.testing.benchmarks.checkpoint_manager_benchmark.CheckpointManagerBenchmark"
FORGETFUL = "tests.system.forgetful.Forgetful"

SUITE = """
suite_name: test
checkpoint_config: {spec: {a: {dtype: float32, shape: [8, 4]}}}
benchmarks:
  - {generator: GENERATOR, options: OPTIONS, disruption: DISRUPTION}
"""


class Killed(BaseException):
    """The worker is gone."""


class Teller(ProgressWriter):
    """Keeps the steps that are told, and kills at one of them."""

    def __init__(self, state: StepState = "saved", step: int = -1) -> None:
        super().__init__(None)
        self.at = state, step
        self.steps: list[tuple[StepState, int]] = []

    def tell(self, body: FromWorker) -> None:
        if isinstance(body, Step):
            self.steps.append((body.state, body.step))
            if self.steps[-1] == self.at:
                raise Killed


class Runs:
    """Runs a suite's one point as one session after another does, and keeps what is written down."""

    def __init__(self, folder: Path, generator: str, options: str, disruption: str) -> None:
        text = SUITE.replace("GENERATOR", generator).replace("OPTIONS", options)
        self.suite = read_suite(text.replace("DISRUPTION", disruption), "suite.yaml")
        self.folder = folder

    def go(self, teller: Teller, restart: dict[str, Any] | None = None) -> PointResult:
        flags = ["--keep-checkpoints", *(["--restart", json.dumps(restart)] if restart else [])]
        settings = parse(["suite.yaml", "--output", str(self.folder / "run"), *flags], {})
        with Journal(self.folder / "scratch" / "journal.jsonl") as journal:
            points = fit_here(expand(self.suite))
            Engine(settings, self.suite, journal, teller, self.folder / "scratch").run(points)
        results = [each for each in self.records() if isinstance(each, PointResult)]
        return results[-1]

    def killed(self, state: StepState, step: int) -> None:
        with pytest.raises(Killed):
            self.go(Teller(state, step))

    def records(self) -> list[Sample | PointResult]:
        return list(Journal.read(self.folder / "scratch" / "journal.jsonl"))

    def samples(self, operation: str) -> dict[str, float]:
        return {
            each.metric: each.value
            for each in self.records()
            if isinstance(each, Sample) and each.operation == operation
        }


Make = Callable[..., Runs]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def one(generator: str, options: str, disruption: str = "{at_step: 2}") -> Runs:
        return Runs(tmp_path, generator, options, disruption)

    return one


def after(saved: int | None, begun: int, *, struck: bool = True) -> dict[str, Any]:
    """What a supervisor tells: two seconds passed since the blow, and one since it was noticed."""
    now = time.monotonic()
    times = {"killed_at": now - 2.0, "ended_at": now - 1.0} if struck else {}
    return {"repeat": 0, "saved": saved, "begun": begun, **times}


@pytest.mark.parametrize(("state", "step", "from_step", "lost"), [("saved", 2, 2, 0), ("begun", 3, 2, 1)])
def test_the_checkpoint_manager_goes_on_from_the_newest_complete_step(
    make: Make, state: StepState, step: int, from_step: int, lost: int
) -> None:
    runs = make(MANAGER, "{train_steps: 5, max_to_keep: 2}")
    runs.killed(state, step)
    teller = Teller()
    result = runs.go(teller, after(2, step))
    assert (result.status, result.cause, result.repeats_done) == ("passed", "", 1)
    assert teller.steps[0] == ("resumed", from_step)
    assert [number for told, number in teller.steps if told == "saved"] == [3, 4]
    recovery = runs.samples("recovery")
    assert (recovery["resumed_from_step"], recovery["lost_steps"]) == (from_step, lost)
    assert recovery["detection_s"] == pytest.approx(1.0)
    parts = ("detection_s", "start_s", "setup_s", "restore_s", "first_step_s")
    assert recovery["time_s"] == pytest.approx(sum(recovery[part] for part in parts))
    assert recovery["restore_s"] == runs.samples("restore_after_restart")["time_s"]


def test_recovery_is_told_by_who_was_struck_only(make: Make) -> None:
    runs = make(MANAGER, "{train_steps: 4}")
    runs.killed("saved", 2)
    assert runs.go(Teller(), after(2, 2, struck=False)).status == "passed"
    assert runs.samples("recovery") == {}
    assert runs.samples("restore_after_restart")


@pytest.mark.parametrize(
    ("does", "cause"),
    [
        ("right", ""),
        (
            "anew",
            "it did not resume after the disruption (SIGKILL to worker 0 once step 2 is saved): it began anew",
        ),
        ("older", "it went on from step 0, and the checkpoint of step 2 was complete"),
        ("lies", "restored leaf a is not what was saved"),
    ],
)
def test_who_does_not_resume_rightly_fails(make: Make, does: str, cause: str) -> None:
    runs = make(FORGETFUL, f"{{does: {does}}}")
    runs.killed("saved", 2)
    result = runs.go(Teller(), after(2, 2))
    assert result.status == ("failed" if cause else "passed")
    assert result.cause.startswith(cause)


@pytest.mark.parametrize(
    ("disruption", "why"),
    [
        ("{at_step: 9}", "SIGKILL to worker 0 once step 9 is saved): its last step was 4"),
        (
            "{after_s: 3600}",
            "SIGKILL to worker 0 3600 s after the first step began): the repeat was over after",
        ),
        ("{at_step: 4}", "): nobody struck within 0.01 s; a supervisor has to"),
        ("{after_s: 1.0e-9}", "): nobody struck within 0.01 s; a supervisor has to"),
    ],
)
def test_a_disruption_that_did_not_happen_fails_the_point(
    make: Make, monkeypatch: pytest.MonkeyPatch, disruption: str, why: str
) -> None:
    monkeypatch.setattr(steps, "_STRUCK_WITHIN_S", 0.01)
    result = make(FORGETFUL, "{}", disruption).go(Teller())
    assert result.status == "failed"
    assert "the disruption did not happen (" in result.cause and why in result.cause


def test_nothing_left_to_do_after_the_restart_fails_the_point(make: Make) -> None:
    runs = make(FORGETFUL, "{}", "{after_s: 1}")
    runs.killed("saved", 4)
    assert "it went on from step 4, and no step was left to do" in runs.go(Teller(), after(4, 4)).cause


def test_a_kill_before_the_first_checkpoint_fails_the_point(make: Make) -> None:
    runs = make(MANAGER, "{train_steps: 3}", "{after_s: 1}")
    runs.killed("begun", 0)
    assert "killed before its first checkpoint was complete" in runs.go(Teller(), after(None, 0)).cause


def test_each_step_has_data_of_its_own_and_a_point_in_peace_has_not(make: Make) -> None:
    import numpy as np

    suite = make(FORGETFUL, "{}").suite
    (fitted,) = fit_here(expand(suite))
    one = steps.Steps(fitted.point, 0, None, None, lambda state, step: None, None, 0.0)  # type: ignore[arg-type]
    first = np.asarray(one.begin(0)["a"]).copy()
    second = np.asarray(one.begin(1)["a"]).copy()
    assert not np.array_equal(first, second)
    one.verify(1, {"a": one.tree["a"]})
    with pytest.raises(Exception, match="not what was saved"):
        one.verify(0, {"a": one.tree["a"]})
