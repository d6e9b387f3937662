"""Options: one value or several, of the right type, and only such combinations as make sense."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path
from typing import Any

import pytest
import yaml

from runtime.contract.generators import GENERATORS, find
from runtime.contract.suite_reader import check_text, read_suite

ORBAX = "orbax.checkpoint._src.testing.benchmarks"
V1 = f"{ORBAX}.v1.benchmark.Benchmark"
SINGLE = f"{ORBAX}.single_replica_benchmark.SingleReplicaBenchmark"


def suite(generator: str, options: str) -> str:
    """A suite of one benchmark; the options, in flow style, stand on line 4 from column 16."""
    return (
        "suite_name: s\nbenchmarks:\n"
        f"  - generator: {generator}\n    options: {options}\n"
        "checkpoint_config: {spec: {a: {dtype: int8, shape: [4]}}}\n"
    )


def axes(generator: str, options: str) -> dict[str, tuple[object, ...]]:
    return dict(read_suite(suite(generator, options), "s.yaml").benchmarks[0].options)


@pytest.mark.parametrize(
    ("options", "name", "values"),
    [
        ("{}", "use_zarr3", (True,)),
        ("{use_zarr3: false}", "use_zarr3", (False,)),
        ("{use_zarr3: [no, yes]}", "use_zarr3", (False, True)),
        ("{chunk_byte_size: [null, 33554432]}", "chunk_byte_size", (None, 33554432)),
        ("{save_concurrent_gb: null}", "save_concurrent_gb", (None,)),
    ],
)
def test_a_list_means_each_value_in_turn(options: str, name: str, values: tuple[object, ...]) -> None:
    assert axes(V1, options)[name] == values


def test_options_are_in_field_order_whatever_the_order_in_the_file() -> None:
    names = list(axes(V1, "{use_zarr3: true, async_enabled: false, enable_trace: true}"))
    assert names[:4] == ["enable_trace", "trace_every_repeat", "async_enabled", "use_ocdbt"]


def test_a_whole_number_is_a_float_where_one_is_asked_for() -> None:
    (value,) = axes(SINGLE, "{broadcast_memory_scaling_factor: 1}")["broadcast_memory_scaling_factor"]
    assert type(value) is float


def test_a_class_of_the_user_takes_any_option() -> None:
    taken = axes("mine.Fast", "{size: [1, two, null], deep: {a: [1]}, flag: true}")
    assert taken == {"size": (1, "two", None), "deep": ({"a": [1]},), "flag": (True,)}


_CASES = yaml.safe_load((Path(__file__).parent / "option_mistakes.yaml").read_text())


@pytest.mark.parametrize("case", _CASES, ids=lambda case: case["says"][:40])
def test_what_is_wrong_with_an_option_is_told(case: dict[str, str]) -> None:
    text = suite(case["generator"].replace("ORBAX", ORBAX), case["options"])
    assert f"s.yaml:{case['says']}" in [str(problem) for problem in check_text(text, "s.yaml")]


GIVEN: dict[str, Any] = {
    "checkpoint_policies_options": {},
    "max_to_keep": 2,
    "reference_checkpoint_path": "gs://b/ckpt",
    "reference_sharding_path": "gs://b/sharding.json",
    "checkpoint_path": "gs://b/ckpt",
}
"""Of options without a default, or whose default alone makes no sense."""


@pytest.mark.parametrize("name", [name for name, generator in GENERATORS.items() if generator.native])
def test_native_options_judge_combinations_as_the_table_does(name: str) -> None:
    generator = GENERATORS[name]
    assert generator.native_options is not None
    fields = dataclasses.fields(generator.native_options)
    flags = [field.name for field in fields if field.type == "bool"]
    given = {field.name: GIVEN[field.name] for field in fields if field.name in GIVEN}
    verdicts = set()
    for values in itertools.product((False, True), repeat=len(flags)):
        options = generator.native_options(**given, **dict(zip(flags, values, strict=True)))
        assert options.is_valid() == (generator.why_invalid(vars(options)) is None)
        verdicts.add(options.is_valid())
    assert verdicts == ({True, False} if "enable_replica_parallel_separate_folder" in flags else {True})


def test_a_native_class_is_found_by_both_of_its_names() -> None:
    for name, generator in GENERATORS.items():
        assert find(name) is generator
        assert generator.native is None or find(generator.native) is generator
    assert find("mine.Fast") is None


def test_what_a_benchmark_needs_to_save_must_be_there() -> None:
    bare = "suite_name: s\nbenchmarks:\n  - {generator: " + V1 + ", options: {}}\n"
    (problem,) = check_text(bare, "s.yaml")
    assert (
        str(problem)
        == "s.yaml:3:5: v1.Benchmark has nothing to save, give checkpoint_config with spec: or path:"
    )
    (problem,) = check_text(f"{bare}checkpoint_config: {{spec: {{}}}}\n", "s.yaml")
    assert str(problem).startswith("s.yaml:4:20: v1.Benchmark has nothing to save")
    handler = f"{ORBAX}.array_handler_benchmark.ArrayHandlerBenchmark"
    (problem,) = check_text(suite(handler, "{}"), "s.yaml")
    assert "ArrayHandlerBenchmark saves the array 'array', which spec lacks" in str(problem)
