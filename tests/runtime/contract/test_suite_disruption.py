"""`disruption:` of a benchmark: how it is read, what is refused and where, and that it makes a point of its own."""

from __future__ import annotations

import pytest

from runtime.contract.disruption import Disruption
from runtime.contract.expand import expand
from runtime.contract.fit import Backend, fit
from runtime.contract.suite_reader import check_text, read_suite

ORBAX = "orbax.checkpoint._src.testing.benchmarks"
MANAGER = f"{ORBAX}.checkpoint_manager_benchmark.CheckpointManagerBenchmark"

SUITE = """\
suite_name: Restart
checkpoint_config: {spec: {a: {dtype: float32, shape: [8]}}}
benchmarks:
  - generator: GENERATOR
    options: OPTIONS
    disruption: DISRUPTION
"""


def suite(disruption: str, generator: str = MANAGER, options: str = "{train_steps: 6}") -> str:
    return SUITE.replace("GENERATOR", generator).replace("OPTIONS", options).replace("DISRUPTION", disruption)


def told(text: str) -> list[str]:
    return [str(problem) for problem in check_text(text, "s.yaml")]


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("{at_step: 3}", Disruption(0, at_step=3)),
        ("{worker: all, at_step: 3, moment: saving}", Disruption("all", at_step=3, moment="saving")),
        ("{worker: 2, after_s: 1.5, signal: SIGTERM}", Disruption(2, after_s=1.5, signal="SIGTERM")),
    ],
)
def test_a_disruption_is_read(written: str, read: Disruption) -> None:
    points = expand(read_suite(suite(written), "s.yaml"))
    assert [point.disruption for point in points] == [read]


@pytest.mark.parametrize(
    ("disruption", "says"),
    [
        (
            "3",
            "6:17: disruption must be a mapping, not an integer, write disruption: {worker: 0, at_step: 3}",
        ),
        (
            "{}",
            "6:17: a disruption says neither at_step nor after_s, it happens once in each repeat, give one",
        ),
        ("{at_step: 1, after_s: 2}", "6:17: a disruption says both at_step and after_s"),
        ("{at_stp: 1}", "6:18: unknown key 'at_stp' in a disruption, did you mean 'at_step'?"),
        ("{at_step: -1}", "6:27: at_step must be an integer of at least 0, not -1"),
        ("{after_s: 0}", "6:27: after_s must be a positive number of seconds, not 0"),
        ("{after_s: 1, moment: saved}", "6:30: moment needs at_step, give at_step, or remove moment"),
        ("{at_step: 1, moment: later}", "6:38: moment must be saved or saving, not 'later', write saved"),
        ("{at_step: 1, signal: SIGSTOP}", "6:38: signal must be SIGKILL or SIGTERM, not 'SIGSTOP'"),
        ("{at_step: 1, worker: first}", "6:38: worker must be a number or all, not 'first', write 0, or all"),
        ("{at_step: 1, worker: -1}", "6:38: worker must be an integer of at least 0, not -1"),
        ("{at_step: 5}", "6:5: nothing would be left to do after the restart, train_steps is 6"),
        (
            "{at_step: 0, moment: saving}",
            "6:5: a disruption while step 0 is being saved, nothing is saved yet",
        ),
        (
            "{at_step: 6, moment: saving}",
            "6:5: step 6 is never begun: train_steps is 6, set train_steps to 7",
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_place(disruption: str, says: str) -> None:
    assert any(f"s.yaml:{says}" in line for line in told(suite(disruption))), told(suite(disruption))


@pytest.mark.parametrize("disruption", ["{at_step: 4}", "{at_step: 5, moment: saving}", "{after_s: 100}"])
def test_the_last_step_that_leaves_one_to_do_is_right(disruption: str) -> None:
    assert told(suite(disruption)) == []


def test_steps_that_are_not_saved_count_as_the_next_that_is() -> None:
    right = suite("{at_step: 3}", options="{train_steps: 6, save_interval_steps: 2}")
    wrong = suite("{at_step: 3}", options="{train_steps: [9, 5], save_interval_steps: 2}")
    assert told(right) == []
    assert "the first step saved from step 3 on is 4, set train_steps to 6 or more" in told(wrong)[0]


def test_only_who_can_go_on_is_disrupted() -> None:
    pytree = f"{ORBAX}.pytree_checkpoint_benchmark.PyTreeCheckpointBenchmark"
    (line,) = told(suite("{at_step: 1}", pytree, "{}"))
    assert line.startswith("s.yaml:6:5: ") and "PyTreeCheckpointBenchmark cannot be disrupted" in line
    assert (
        "use slicebench's CheckpointManagerBenchmark, Training or TransformerTraining, or a class of your own"
        in line
    )
    (line,) = told(suite("{at_step: 1}").replace("    options", "    implementation: orbax\n    options"))
    assert "Orbax's own cannot go on in the middle" in line
    assert told(suite("{at_step: 99}", "mine.Own", "{}")) == []


def test_data_must_be_made_for_each_step() -> None:
    text = suite("{at_step: 1}").replace("{spec: {a: {dtype: float32, shape: [8]}}}", "{path: gs://b/c}")
    (line,) = told(text)
    assert line.startswith("s.yaml:2:20: ") and "needs a checkpoint with spec" in line


def test_a_disrupted_point_is_another_benchmark_than_one_in_peace() -> None:
    peace = suite("{at_step: 1}").replace("    disruption: {at_step: 1}\n", "")
    keys = {
        expand(read_suite(text, "s.yaml"))[0].key
        for text in (peace, suite("{at_step: 1}"), suite("{at_step: 2}"), suite("{at_step: 2, worker: 0}"))
    }
    assert len(keys) == 3, "worker 0 is the default"


def test_a_worker_that_the_target_lacks_is_refused_before_anything_is_made() -> None:
    points = expand(read_suite(suite("{at_step: 1, worker: 2}"), "s.yaml"))
    assert fit(points, Backend("cpu", 4, workers=3)).points
    refused = fit(points, Backend("cpu", 4, workers=2))
    assert refused.points == ()
    assert "strikes worker 2, and workers are numbered 0 to 1" in str(refused.problems[0])


def test_who_makes_what_it_saves_needs_no_checkpoint_to_be_disrupted() -> None:
    text = suite("{at_step: 5}", "runtime.benchmarks.training.Training", "{train_steps: 20}")
    assert told("\n".join(line for line in text.splitlines() if "checkpoint_config" not in line)) == []
