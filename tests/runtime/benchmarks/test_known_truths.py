"""What benchmarks tell against known truths: operations that take as long as they are told to, files counted."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from runtime.benchmarks import (
    array_handler,
    cancel,
    checkpoint_manager_perf,
    colocated_dispatch,
    deleter,
    garbage_collection,
    pytree_checkpoint,
    references,
    save_load,
)
from runtime.contract.metrics import THROUGHPUT, TIME
from runtime.training import loop
from runtime.training.model import Trainer
from tasks.history.effect import measure_effect
from tests.runtime.benchmarks.known_clock import Clock, known_times

RunSuite = Callable[..., Any]
ORBAX = "orbax.checkpoint._src.testing.benchmarks."
PYTREE = ORBAX + "pytree_checkpoint_benchmark.PyTreeCheckpointBenchmark"
DELETER = ORBAX + "deleter_benchmark.DeleterBenchmark"
COLLECTION = "runtime.benchmarks.garbage_collection.GarbageCollection"
HANDLER, MANAGER = array_handler.type_handlers.ArrayHandler, deleter.ocp.CheckpointManager


def let(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, cls: Any, name: str, takes: Callable[[Any], float]
) -> None:
    """Lets a method take so many seconds beside what it does, and beside what it calls."""
    real = getattr(cls, name)

    def call(target: Any, *arguments: Any, **more: Any) -> Any:
        done = real(target, *arguments, **more)
        clock.now += takes(target)
        return done

    monkeypatch.setattr(cls, name, call)


@pytest.fixture
def clock() -> Iterator[Clock]:
    with known_times() as made:
        yield made


@pytest.mark.parametrize("factor", [1.0, 1.1, 3.0])
def test_a_save_that_is_slower_by_a_factor_is_told_as_that(
    run_suite: RunSuite, clock: Clock, monkeypatch: pytest.MonkeyPatch, factor: float
) -> None:
    let(clock, monkeypatch, pytree_checkpoint.ocp.AsyncCheckpointer, "save", lambda _: 0.4 * factor)
    let(
        clock,
        monkeypatch,
        pytree_checkpoint.ocp.AsyncCheckpointer,
        "wait_until_finished",
        lambda _: 0.6 * factor,
    )
    let(clock, monkeypatch, pytree_checkpoint.ocp.AsyncCheckpointer, "restore", lambda _: 0.5)
    slowed = run_suite(PYTREE)
    times = {name: slowed.value(name, TIME) for name in ("wait_until_finished", "restore")}
    # Orbax waits for the save before when it saves, and before it restores.
    waits = 0.6 * factor
    assert slowed.value("save", TIME) == pytest.approx(0.4 * factor + waits)
    assert times == {"wait_until_finished": pytest.approx(waits), "restore": pytest.approx(0.5 + waits)}
    whole = slowed.value("save", TIME) + waits
    assert slowed.value("save", THROUGHPUT) == pytest.approx(slowed.value("save", "payload_bytes") / whole)
    effect = measure_effect([slowed.value("save", TIME)], [[0.4 + 0.6]] * 8)
    assert effect is not None and 1 + effect.effect == pytest.approx(factor, rel=0.05)


def test_a_save_that_is_really_slower_is_told_as_that(
    run_suite: RunSuite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the true clock: three times what it takes, and what that was is measured beside it."""
    took: list[float] = []
    real = pytree_checkpoint.ocp.AsyncCheckpointer.save

    def save(self: Any, *arguments: Any, **more: Any) -> None:
        began = time.perf_counter()
        real(self, *arguments, **more)
        time.sleep(0.1 + 2 * (time.perf_counter() - began))
        took.append(time.perf_counter() - began)

    monkeypatch.setattr(pytree_checkpoint.ocp.AsyncCheckpointer, "save", save)
    outcome = run_suite(PYTREE)
    assert took[0] <= outcome.value("save", TIME) <= 2 * took[0], "and little more"


def test_what_python_allocates_within_a_save_is_told(
    run_suite: RunSuite, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = 64 << 20
    real = pytree_checkpoint.ocp.AsyncCheckpointer.save

    def save(self: Any, *arguments: Any, **more: Any) -> None:
        buffer = bytearray(size)
        real(self, *arguments, **more)
        del buffer

    monkeypatch.setattr(pytree_checkpoint.ocp.AsyncCheckpointer, "save", save)
    outcome = run_suite(PYTREE, "{metric_tracemalloc_enabled: true}")
    assert outcome.value("save", "tracemalloc_peak_bytes") == pytest.approx(size, rel=0.05)
    assert outcome.value("restore", "tracemalloc_peak_bytes") < 0.05 * size


@pytest.mark.parametrize("lost", [0.0, 0.3])
def test_what_deleting_adds_to_a_save_is_told(
    run_suite: RunSuite, clock: Clock, monkeypatch: pytest.MonkeyPatch, lost: float
) -> None:
    def takes(manager: Any) -> float:
        return 1.0 + (0.0 if manager._options.max_to_keep is None else lost)

    let(clock, monkeypatch, garbage_collection.ocp.CheckpointManager, "save", takes)
    outcome = run_suite(COLLECTION, "{steps: 2, max_to_keep: 1}")
    assert outcome.value("save_and_delete", "deletion_s") == pytest.approx(lost, rel=0.05, abs=1e-9)


def test_what_was_deleted_is_told_as_it_was_there(
    run_suite: RunSuite, monkeypatch: pytest.MonkeyPatch
) -> None:
    there: list[tuple[int, int]] = []
    real = deleter.ocp.CheckpointManager.delete

    def delete(self: Any, step: int) -> None:
        files = [Path(at) / name for at, _, names in os.walk(self.directory / str(step)) for name in names]
        there.append((len(files), sum(file.stat().st_size for file in files)))
        real(self, step)

    monkeypatch.setattr(deleter.ocp.CheckpointManager, "delete", delete)
    outcome = run_suite(DELETER, "{train_steps: 3, max_to_keep: 9}")
    told = [
        [each.value for each in outcome.samples if each.metric == metric]
        for metric in ("deleted_files", "deleted_bytes")
    ]
    assert list(zip(*told, strict=True)) == there and len(there) == 2


POLICIES = """{checkpoint_policies_options: [{
    save_decision_policies: [{policy_type: ContinuousCheckpointingPolicy}],
    preservation_policies: [{policy_type: LatestN}]}], num_checkpoints: 1}"""
MANAGED = [(MANAGER, "save", 0.4), (MANAGER, "wait_until_finished", 0.6), (MANAGER, "restore", 0.5)]
TOLD = {"save": 0.4, "wait_until_finished": 0.6, "restore": 0.5}
DISPATCHES = ("without_result_specs", "with_dummy_result_array", "with_result_specs")


@pytest.mark.parametrize(
    ("generator", "options", "calls", "told"),
    [
        (
            "array_handler_benchmark.ArrayHandlerBenchmark",
            "{}",
            [
                (HANDLER, "serialize", 0.4),
                (array_handler.type_handlers, "merge_ocdbt_per_process_files", 0.3),
                (HANDLER, "metadata", 0.2),
                (HANDLER, "deserialize", 0.7),
            ],
            {"serialize": 0.4, "merge_ocdbt": 0.3, "metadata_validation": 0.2, "deserialize": 0.7},
        ),
        ("checkpoint_manager_benchmark.CheckpointManagerBenchmark", "{}", MANAGED, TOLD),
        (
            "checkpoint_manager_perf_benchmark.CheckpointManagerPerfBenchmark",
            "{train_steps: 1}",
            [*MANAGED, (checkpoint_manager_perf, "_train", 0.2)],
            TOLD | {"train_step": 0.2},
        ),
        (
            "checkpoint_policy_benchmark.CheckpointPolicyBenchmark",
            POLICIES,
            [*MANAGED, (MANAGER, "should_save", 0.1)],
            TOLD | {"should_save": 0.1},
        ),
        (
            "deleter_benchmark.DeleterBenchmark",
            "{train_steps: 2, max_to_keep: 9}",
            [*MANAGED, (MANAGER, "delete", 0.3)],
            TOLD | {"delete": 0.3},
        ),
        (
            "v0_checkpointer_cancel_benchmark.V0CheckpointerCancelBenchmark",
            "{cancel_delay_secs: 0}",
            [*MANAGED, (pytree_checkpoint.ocp.AsyncCheckpointer, "cancel", 0.3)],
            {
                "async_save_dispatch": 0.4,
                "cancel_too_late": 0.3,
                "wait_until_finished": 0.6,
                "restore_cost": 0.5,
            },
        ),
        (
            "multihost_dispatchers_benchmark.MultihostDispatchersBenchmark",
            "{use_colocated: false}",
            [(colocated_dispatch, "_here", 0.3)],
            {f"dispatch_{name}": 0.3 for name in DISPATCHES}
            | {f"dispatch_{name}_block_until_ready": 0.0 for name in DISPATCHES[:2]},
        ),
    ],
)
def test_an_operation_takes_as_long_as_what_it_is_of(
    run_suite: RunSuite,
    monkeypatch: pytest.MonkeyPatch,
    generator: str,
    options: str,
    calls: list[tuple[Any, str, float]],
    told: dict[str, float],
) -> None:
    monkeypatch.setattr(cancel, "_goes_on", over)
    with known_times(*calls):
        assert times(run_suite(ORBAX + generator, options)) == pytest.approx(told)


def over(manager: Any) -> bool:
    """Whether a save goes on that is waited for: it does not."""
    manager._checkpointer.wait_until_finished()
    return False


def times(outcome: Any) -> dict[str, float]:
    """Returns the time of each operation, of which each occurrence takes as long."""
    assert {(each.status, each.cause) for each in outcome.results} == {("passed", "")}
    found: dict[str, set[float]] = {}
    for each in outcome.samples:
        if each.metric == TIME:
            found.setdefault(each.operation, set()).add(round(each.value, 9))
    assert {name: len(values) for name, values in found.items()} == dict.fromkeys(found, 1)
    return {name: values.pop() for name, values in found.items()}


def test_a_save_by_orbaxs_v1_takes_as_long_as_its_parts(
    run_suite: RunSuite, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    save, load = save_load.ocp.save_async, save_load.ocp.load

    def begin(*arguments: Any, **more: Any) -> Any:
        return SimpleNamespace(result=clock.slow(save(*arguments, **more).result, 0.6))

    monkeypatch.setattr(save_load.ocp, "save_async", clock.slow(begin, 0.4))
    monkeypatch.setattr(save_load.ocp, "load", clock.slow(load, 0.5))
    outcome = run_suite(ORBAX + "v1.benchmark.Benchmark")
    assert times(outcome) == pytest.approx({"save_blocking": 0.4, "save_background": 0.6, "load": 0.5})


def test_a_reference_is_loaded_for_as_long_as_that_takes(
    run_text: Callable[[str], Any], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(references, "load", clock.slow(references.load, 0.7))
    monkeypatch.setattr(references.ocp, "save", clock.slow(references.ocp.save, 0.4))
    paths = '"{run}/made/ckpt"', '"{run}/made/2x4.json"'
    given = "reference_checkpoint_path: {}, reference_sharding_path: {}".format(*paths)
    outcome = run_text(
        "suite_name: made\nmesh_config: {mesh_axes: [replica, model], ici_parallelism: {replica: 4, model: 2}}\n"
        "checkpoint_config: {spec: {w: {dtype: float32, shape: [8, 8], sharding: [model, null]}}}\nbenchmarks:\n"
        '- {generator: runtime.benchmarks.reference.Reference, options: {to: "{run}/made", meshes: "2x4"}}\n'
        f"- {{generator: {ORBAX}v1.resharding_benchmark.ReshardingBenchmark, options: {{{given}}}}}\n"
        f"- generator: {ORBAX}orbax_load.load_benchmark.OrbaxLoadBenchmark\n"
        f"  options: {{checkpoint_path: {paths[0]}, sharding_config_path: {paths[1]}}}\n"
    )
    assert times(outcome) == pytest.approx({"save": 0.4, "load": 0.7})


def test_a_first_save_is_told_from_those_after_it(
    run_suite: RunSuite, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    saves, restores = iter((1.0, 0.25, 0.25)), iter((0.8, 0.3))
    let(clock, monkeypatch, pytree_checkpoint.ocp.Checkpointer, "save", lambda _: next(saves))
    let(clock, monkeypatch, pytree_checkpoint.ocp.Checkpointer, "restore", lambda _: next(restores))
    outcome = run_suite("runtime.benchmarks.first_save.FirstSave", "{saves: 2}")
    told = {"first_save": 1.0, "save": 0.25, "first_restore": 0.8, "restore": 0.3}
    assert times(outcome) == pytest.approx(told)


def test_a_step_of_training_takes_as_long_as_its_program(
    run_text: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with known_times(*MANAGED, (Trainer, "step", 0.02)) as clock:
        monkeypatch.setattr(loop, "time", clock)
        outcome = run_text(
            "suite_name: t\nbenchmarks:\n- generator: runtime.benchmarks.training.Training\n"
            "  options: {train_steps: 3, save_interval_steps: 9, layers: 1, width: 8, batch: 1, step_s: 0.05, "
            "async_enabled: false}\n"
        )
    assert times(outcome) == pytest.approx(TOLD | {"train_step": 0.02})
