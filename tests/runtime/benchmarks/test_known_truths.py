"""What benchmarks tell against known truths: operations that take as long as they are told to, files counted."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runtime import measure
from runtime.benchmarks import deleter, garbage_collection, pytree_checkpoint
from runtime.contract.metrics import THROUGHPUT, TIME
from tasks.history.effect import measure_effect

RunSuite = Callable[..., Any]
ORBAX = "orbax.checkpoint._src.testing.benchmarks."
PYTREE = ORBAX + "pytree_checkpoint_benchmark.PyTreeCheckpointBenchmark"
DELETER = ORBAX + "deleter_benchmark.DeleterBenchmark"
COLLECTION = "runtime.benchmarks.garbage_collection.GarbageCollection"


class Clock:
    """Stands for the module time in the recorder: only what is said to take time does."""

    time = staticmethod(time.time)

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now

    def let(
        self, monkeypatch: pytest.MonkeyPatch, cls: Any, name: str, takes: Callable[[Any], float]
    ) -> None:
        """Lets a method take so many seconds beside what it does."""
        real = getattr(cls, name)

        def call(target: Any, *arguments: Any, **more: Any) -> Any:
            done = real(target, *arguments, **more)
            self.now += takes(target)
            return done

        monkeypatch.setattr(cls, name, call)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(measure, "time", made)
    return made


@pytest.mark.parametrize("factor", [1.0, 1.1, 3.0])
def test_a_save_that_is_slower_by_a_factor_is_told_as_that(
    run_suite: RunSuite, clock: Clock, monkeypatch: pytest.MonkeyPatch, factor: float
) -> None:
    clock.let(monkeypatch, pytree_checkpoint.ocp.AsyncCheckpointer, "save", lambda _: 0.4 * factor)
    clock.let(
        monkeypatch, pytree_checkpoint.ocp.AsyncCheckpointer, "wait_until_finished", lambda _: 0.6 * factor
    )
    clock.let(monkeypatch, pytree_checkpoint.ocp.AsyncCheckpointer, "restore", lambda _: 0.5)
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
    assert outcome.value("save", TIME) == pytest.approx(took[0], rel=0.05)


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

    clock.let(monkeypatch, garbage_collection.ocp.CheckpointManager, "save", takes)
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
