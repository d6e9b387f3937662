"""A manager's duties: policies keep what they say, deletion deletes, a save that is broken off leaves none or all."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from etils import epath

from runtime import folders
from runtime.benchmarks import cancel, deleter
from runtime.benchmarks.checkpoint_policy import NotKept, check_kept

RunSuite = Callable[..., Any]

ORBAX = "orbax.checkpoint._src.testing.benchmarks."
PERF = ORBAX + "checkpoint_manager_perf_benchmark.CheckpointManagerPerfBenchmark"
POLICY = ORBAX + "checkpoint_policy_benchmark.CheckpointPolicyBenchmark"
DELETER = ORBAX + "deleter_benchmark.DeleterBenchmark"
CANCEL = ORBAX + "v0_checkpointer_cancel_benchmark.V0CheckpointerCancelBenchmark"
V1_CANCEL = ORBAX + "v1_checkpointer_cancel_benchmark.V1CheckpointerCancelBenchmark"


def names(outcome: Any, point: int = 0) -> list[str]:
    assert [(each.status, each.cause) for each in outcome.results] == [("passed", "")] * len(outcome.results)
    assert {each.implementation for each in outcome.results} == {"native"}
    return [name for name, _ in outcome.operations(point)]


def test_perf_trains_saves_and_keeps_the_last(run_suite: RunSuite) -> None:
    outcome = run_suite(PERF, "{train_steps: 2, use_zarr3: true, use_ocdbt: [true, false]}")
    assert names(outcome) == ["train_step", "save", "wait_until_finished"] * 2 + ["restore"]
    files = [each.value for each in outcome.samples if each.metric == "files"]
    assert files[0] != files[1], "both options are heeded"


def test_a_policy_that_is_kept_to(run_suite: RunSuite) -> None:
    rules = "preservation_policies: [{policy_type: LatestN, n: 2}, {policy_type: CustomSteps, custom_steps: [2, 3]}]"
    saves = "save_decision_policies: [{policy_type: FixedIntervalPolicy, interval_steps: 2}]"
    expected = "expected_preserve_checkpoints: [2, 6]"
    policies = f"checkpoint_policies_options: [{{{rules}, {saves}, {expected}}}]"
    outcome = run_suite(POLICY, f"{{num_checkpoints: 8, {policies}}}")
    told = names(outcome)
    assert [told.count(name) for name in ("should_save", "save", "wait_until_finished", "restore")] == [
        8,
        4,
        4,
        1,
    ]
    assert outcome.value("save", "kept_steps") == 3


def test_a_policy_that_is_not_is_a_failure(run_suite: RunSuite) -> None:
    rules = "preservation_policies: [{policy_type: LatestN, n: 1}]"
    saves = "save_decision_policies: [{policy_type: SpecificStepsPolicy, custom_steps: [0, 1]}]"
    policies = f"checkpoint_policies_options: [{{{rules}, {saves}, expected_preserve_checkpoints: [0]}}]"
    (result,) = run_suite(POLICY, f"{{num_checkpoints: 2, {policies}}}").results
    assert (result.status, result.cause) == ("failed", "steps 0 were expected to be kept, and steps 1 are")


def policies(*rules: dict[str, Any], expected: list[int] | None = None) -> dict[str, Any]:
    return {"preservation_policies": rules, "expected_preserve_checkpoints": expected}


LATEST, EVERY = {"policy_type": "LatestN", "n": 2}, {"policy_type": "EveryNSteps", "interval_steps": 4}
CUSTOM = {"policy_type": "CustomSteps", "custom_steps": [3, 5]}
CLOCK = {"policy_type": "EveryNSeconds", "interval_secs": 1}


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (policies(LATEST), [6, 7]),
        (policies({"policy_type": "LatestN"}), [0, 1, 2, 3, 4, 5, 6, 7]),
        (policies(EVERY), [0, 4]),
        (policies(EVERY, LATEST), [0, 4, 6, 7]),
        (policies(CUSTOM, EVERY), [0, 3, 4, 5]),
        (policies(CLOCK, LATEST), [0, 6, 7]),
        (policies(CLOCK, LATEST), [0, 3, 6, 7]),
    ],
)
def test_what_policies_keep(given: dict[str, Any], kept: list[int]) -> None:
    check_kept(given, range(8), kept)


@pytest.mark.parametrize(
    ("given", "kept", "says"),
    [
        (policies(LATEST), [7], "the policies keep steps 6, 7, and steps 7 are there"),
        (policies(LATEST), [5, 6, 7], "the policies keep steps 6, 7, and steps 5, 6, 7 are there"),
        (policies(EVERY), [0, 4, 8], "steps 8 are there and were not saved"),
        (policies(CLOCK, expected=[1]), [0], "steps 1 were expected to be kept, and steps 0 are"),
        (policies(CLOCK), [9], "steps 9 are there and were not saved"),
    ],
)
def test_what_policies_do_not_keep(given: dict[str, Any], kept: list[int], says: str) -> None:
    with pytest.raises(NotKept, match=says):
        check_kept(given, range(8), kept)


def test_each_step_is_deleted_when_the_next_is_there(run_suite: RunSuite) -> None:
    outcome = run_suite(DELETER, "{train_steps: 3, max_to_keep: 9, num_deletion_threads: [1, 2]}")
    saved = ["save", "wait_until_finished"]
    assert names(outcome) == [*saved, *saved, "delete", *saved, "delete", "restore"]
    deleted = [each.value for each in outcome.samples if each.metric == "deleted_files"]
    assert len(deleted) == 4 and min(deleted) > 3


def test_a_checkpoint_that_stays_is_noticed(run_suite: RunSuite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deleter.ocp.CheckpointManager, "delete", lambda self, step: None)
    (result,) = run_suite(DELETER, "{train_steps: 2, max_to_keep: 9}").results
    assert (result.status, result.cause) == ("failed", "only step 1 is to be left, and there are [0, 1]")


@pytest.fixture
def held_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Lets no save be committed before somebody breaks it off, which takes until nothing is written any more."""
    from orbax.checkpoint._src.checkpointers import async_checkpointer

    struck, commit = threading.Event(), async_checkpointer._background_wait_for_commit_futures
    broken_off = async_checkpointer.AsyncCheckpointer.cancel

    def later(*arguments: Any, **more: Any) -> Any:
        struck.wait(60)
        return commit(*arguments, **more)

    def strike(self: Any) -> None:
        broken_off(self)
        struck.set()
        folders.await_quiet(epath.Path(tmp_path / "run"), 60)  # else v1 deletes what is still written

    monkeypatch.setattr(async_checkpointer, "_background_wait_for_commit_futures", later)
    monkeypatch.setattr(async_checkpointer.AsyncCheckpointer, "cancel", strike)


@pytest.fixture
def waited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets every save be complete before anybody breaks it off."""
    real = cancel._goes_on

    def look(manager: Any) -> bool:
        manager.wait_until_finished()
        return real(manager)

    monkeypatch.setattr(cancel, "_goes_on", look)


def test_a_save_that_is_broken_off_leaves_nothing(run_suite: RunSuite, held_up: None) -> None:
    outcome = run_suite(CANCEL, "{cancel_delay_secs: 0}")
    assert names(outcome) == ["async_save_dispatch", "cancel_cost", "wait_until_finished"]
    assert outcome.value("cancel_cost", "cancelled") == 1
    assert outcome.value("cancel_cost", "still_written_s") == 0, "it was quiet when the cancel was over"


def test_how_long_what_is_broken_off_is_written_is_told(
    run_suite: RunSuite, held_up: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet = folders.await_quiet

    def later(path: epath.Path, within_s: float) -> float | None:
        quiet(path, within_s)
        return cancel.time.monotonic() + 5 if path.name == "repeat_0" else None

    monkeypatch.setattr(folders, "await_quiet", later)
    outcome = run_suite(CANCEL, "{cancel_delay_secs: 0}")
    assert outcome.results[0].status == "passed"
    assert 5 <= outcome.value("cancel_cost", "still_written_s") < 60


def test_a_save_that_is_complete_stays(run_suite: RunSuite, waited: None) -> None:
    outcome = run_suite(CANCEL, "{cancel_delay_secs: 0, perform_cancellation: [true, false]}")
    whole = ["wait_until_finished", "restore_cost"]
    assert names(outcome, 0) == ["async_save_dispatch", "cancel_too_late", *whole]
    assert names(outcome, 1) == ["async_save_dispatch", *whole]


def test_after_a_cancel_v1_saves_the_next(run_suite: RunSuite, held_up: None) -> None:
    after = ["async_save_dispatch_after_cancel", "wait_until_finished", "restore_cost"]
    told = names(run_suite(V1_CANCEL, "{cancel_delay_secs: 0}"))
    assert told == ["async_save_dispatch", "cancel_cost", *after]


def test_v1_deleting_what_is_still_written_is_explained(
    run_suite: RunSuite, waited: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Any, step: int) -> None:
        raise OSError(errno.ENOTEMPTY, "Directory not empty", "d")

    monkeypatch.setattr(cancel.ocp.CheckpointManager, "delete", refuse)
    (result,) = run_suite(V1_CANCEL, "{cancel_delay_secs: 0}").results
    says = "Orbax's cancel deletes the step while its own threads still write it: [Errno 39] Directory not empty: 'd'"
    assert (result.status, result.cause) == ("failed", says)


def test_v1_deletes_what_is_complete(run_suite: RunSuite, waited: None) -> None:
    outcome = run_suite(V1_CANCEL, "{cancel_delay_secs: 0, perform_cancellation: [true, false]}")
    after = ["async_save_dispatch_after_cancel", "wait_until_finished", "restore_cost"]
    assert names(outcome, 0) == ["async_save_dispatch", "cancel_too_late", *after]
    assert names(outcome, 1) == ["async_save_dispatch", "wait_until_finished", "restore_cost"]


def test_half_a_checkpoint_is_a_failure(
    run_suite: RunSuite, waited: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cancel.ocp.CheckpointManager, "all_steps", lambda self, read=False: [])
    (result,) = run_suite(CANCEL, "{cancel_delay_secs: 0}").results
    assert (result.status, result.cause) == ("failed", "the steps that are there are [], and may be [1]")
