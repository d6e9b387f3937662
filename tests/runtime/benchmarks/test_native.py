"""Every native benchmark saves, restores and verifies with every format, and names its operations."""

from __future__ import annotations

import itertools
import re
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from runtime.benchmarks import colocated_dispatch

RunSuite = Callable[..., Any]

ORBAX = "orbax.checkpoint._src.testing.benchmarks."
PYTREE = ORBAX + "pytree_checkpoint_benchmark.PyTreeCheckpointBenchmark"
ARRAY_HANDLER = ORBAX + "array_handler_benchmark.ArrayHandlerBenchmark"
MANAGER = ORBAX + "checkpoint_manager_benchmark.CheckpointManagerBenchmark"
SAVE_LOAD = ORBAX + "v1.benchmark.Benchmark"
DISPATCH = ORBAX + "multihost_dispatchers_benchmark.MultihostDispatchersBenchmark"

BYTES = 16 * 32 * 4 + 8 * 4 * 2 + 6 * 4
"""Of the arrays in conftest's suite."""


def expect_passed(outcome: Any, points: int) -> None:
    assert [(each.status, each.cause) for each in outcome.results] == [("passed", "")] * points
    assert {each.implementation for each in outcome.results} == {"native"}


def test_pytree_in_every_format(run_suite: RunSuite) -> None:
    options = "{use_ocdbt: [true, false], use_zarr3: [true, false], use_compression: [true, false]}"
    outcome = run_suite(PYTREE, options)
    expect_passed(outcome, 8)
    assert outcome.operations() == [("save", 0), ("wait_until_finished", 0), ("restore", 0)]


def test_pytree_saves_replicas_in_parallel_or_not_async_at_all(run_suite: RunSuite) -> None:
    parallel = "use_replica_parallel: true, enable_replica_parallel_separate_folder: true"
    outcome = run_suite(PYTREE, f"{{async_enabled: false, {parallel}, save_concurrent_gb: 1}}")
    expect_passed(outcome, 1)
    assert outcome.operations() == [("save", 0), ("restore", 0)]


def test_bytes_that_move_are_told(run_suite: RunSuite) -> None:
    outcome = run_suite(PYTREE)
    assert outcome.value("save", "payload_bytes") == BYTES
    assert outcome.value("restore", "payload_bytes") == BYTES


def test_pytree_leaves_orbax_as_it_was(run_suite: RunSuite) -> None:
    import jax
    import orbax.checkpoint as ocp

    before = ocp.type_handlers.get_type_handler(jax.Array)
    run_suite(PYTREE, "{use_replica_parallel: true}")
    assert ocp.type_handlers.get_type_handler(jax.Array) is before


def test_array_handler(run_suite: RunSuite) -> None:
    outcome = run_suite(ARRAY_HANDLER, "{use_ocdbt: [true, false], use_metadata_store: [true, false]}")
    expect_passed(outcome, 4)
    names = [name for name, _ in outcome.operations(0)]
    assert names == ["serialize", "merge_ocdbt", "metadata_validation", "deserialize"]
    assert "merge_ocdbt" not in dict(outcome.operations(2))
    held = 16 * 32 * 4
    assert {each.value for each in outcome.samples if each.metric == "payload_bytes"} == {held}


def test_steps_of_a_manager_are_occurrences_of_one_operation(run_suite: RunSuite) -> None:
    outcome = run_suite(MANAGER, "{train_steps: 3, max_to_keep: 2}")
    expect_passed(outcome, 1)
    steps = itertools.product(range(3), ("save", "wait_until_finished"))
    assert outcome.operations() == [*((name, step) for step, name in steps), ("restore", 0)]


def test_a_manager_that_skips_steps_restores_the_last_saved(run_suite: RunSuite) -> None:
    outcome = run_suite(MANAGER, "{train_steps: 3, save_interval_steps: 2}")
    expect_passed(outcome, 1)
    saved = [("save", 0), ("wait_until_finished", 0), ("save_skipped", 0)]
    assert outcome.operations() == [*saved, ("save", 1), ("wait_until_finished", 1), ("restore", 0)]
    assert {each.operation for each in outcome.samples if each.metric == "bytes_per_s"} == {"save", "restore"}


@pytest.mark.parametrize(
    ("benchmark", "begin", "rest"),
    [
        (PYTREE, "save", "wait_until_finished"),
        (MANAGER, "save", "wait_until_finished"),
        (SAVE_LOAD, "save_blocking", "save_background"),
    ],
)
def test_a_save_is_as_fast_as_its_end_in_the_background(
    run_suite: RunSuite, benchmark: str, begin: str, rest: str
) -> None:
    outcome = run_suite(benchmark)
    seconds = outcome.value(begin, "time_s") + outcome.value(rest, "time_s")
    assert outcome.value(begin, "bytes_per_s") * seconds == pytest.approx(
        outcome.value(begin, "payload_bytes")
    )


@pytest.mark.parametrize(
    ("options", "operations"),
    [
        ("{}", ["save_blocking", "save_background", "load"]),
        ("{async_enabled: false, use_zarr3: false, chunk_byte_size: 1024}", ["save", "load"]),
        ("{use_ocdbt: false, restore_concurrent_gb: 1}", ["save_blocking", "save_background", "load"]),
    ],
)
def test_save_load(run_suite: RunSuite, options: str, operations: list[str]) -> None:
    outcome = run_suite(SAVE_LOAD, options)
    expect_passed(outcome, 1)
    assert [name for name, _ in outcome.operations()] == operations


def test_allocations_are_traced_on_demand(run_suite: RunSuite) -> None:
    outcome = run_suite(PYTREE, "{metric_tracemalloc_enabled: true}")
    expect_passed(outcome, 1)
    for operation in ("save", "wait_until_finished", "restore"):
        assert outcome.value(operation, "tracemalloc_peak_bytes") > 0


def test_tracing_does_not_stop_while_a_save_goes_on(
    run_suite: RunSuite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python before 3.12.9 crashes when it does: threads of TensorStore allocate."""
    import orbax.checkpoint as ocp

    events: list[str] = []

    def told(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **more: Any) -> Any:
            events.append(name)
            return real(*arguments, **more)

        return call

    wait = ocp.AsyncCheckpointer.wait_until_finished
    monkeypatch.setattr(tracemalloc, "start", told("start", tracemalloc.start))
    monkeypatch.setattr(tracemalloc, "stop", told("stop", tracemalloc.stop))
    monkeypatch.setattr(ocp.AsyncCheckpointer, "wait_until_finished", told("wait", wait))
    expect_passed(run_suite(PYTREE, "{metric_tracemalloc_enabled: true}"), 1)
    assert re.fullmatch("(start (wait )+stop )+", " ".join([*events, ""])), events


@pytest.mark.parametrize("colocated", ["true", "false"])
def test_functions_are_sent_to_the_hosts_of_devices_or_called_here(
    run_suite: RunSuite, colocated: str
) -> None:
    outcome = run_suite(DISPATCH, f"{{use_colocated: {colocated}, device_count: 2}}")
    expect_passed(outcome, 1)
    first, second = "dispatch_without_result_specs", "dispatch_with_dummy_result_array"
    waits = "_block_until_ready"
    expected = [first, first + waits, second, second + waits, "dispatch_with_result_specs"]
    assert [name for name, _ in outcome.operations()] == expected


def test_a_function_that_makes_something_else_is_noticed(
    run_suite: RunSuite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(colocated_dispatch, "_ones", lambda array, shape, sharding: array)
    (result,) = run_suite(DISPATCH, "{}").results
    assert result.status == "failed" and "is not what the function made" in result.cause
