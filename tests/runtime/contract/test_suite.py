"""What a suite may say, and what each mistake is answered with: place, reason and remedy, all at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from runtime.contract.errors import BadInput
from runtime.contract.suite import ArraySpec, CheckpointSpec, MeshSpec, SimDeviceSpec
from runtime.contract.suite_data import DTYPES
from runtime.contract.suite_reader import check_text, read_suite

ORBAX = "orbax.checkpoint._src.testing.benchmarks"
PYTREE = f"{ORBAX}.pytree_checkpoint_benchmark.PyTreeCheckpointBenchmark"

GOOD = f"""\
suite_name: Good
mesh_config:
  mesh_axes: [data, model]
  ici_parallelism: {{data: 2, model: 2}}
checkpoint_config:
  spec:
    a: {{dtype: float32, shape: [8, 8], sharding: [data, model]}}
    step: int
benchmarks:
  - generator: {PYTREE}
    options:
      use_ocdbt: [true, false]
"""


def changed(*pairs: tuple[str, str]) -> str:
    """The good suite with parts replaced."""
    text = GOOD
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return text


def told(text: str) -> list[str]:
    return [str(problem) for problem in check_text(text, "s.yaml")]


def test_a_good_suite_is_read_in_full() -> None:
    suite = read_suite(GOOD, "s.yaml")
    assert (suite.name, suite.num_repeats, suite.warmup, suite.repeats) == ("Good", 1, 0, 1)
    assert suite.deadline_s is None
    assert suite.warnings == ()
    assert suite.meshes == (MeshSpec(("data", "model"), {"data": 2, "model": 2}),)
    assert suite.checkpoints == (
        CheckpointSpec(spec={"a": ArraySpec("float32", (8, 8), ("data", "model")), "step": "int"}),
    )
    (item,) = suite.benchmarks
    assert (item.generator, item.implementation) == (PYTREE, "native")
    assert item.options["use_ocdbt"] == (True, False)
    assert item.options["use_zarr3"] == (False,)
    assert str(item.place) == "s.yaml:10:5"


def test_what_slicebench_adds_is_read() -> None:
    extras = "num_repeats: 3\nwarmup: 2\ndeadline_s: 60\n"
    tree = "    layers:\n      one: {dtype: bfloat16, shape: [], sharding: []}\n"
    tree += "      name: str\n      more: {}\n"
    text = extras + changed(
        ("    step: int\n", tree), ("    options:\n", "    deadline_s: 1.5\n    options:\n")
    )
    suite = read_suite(text, "s.yaml")
    assert (suite.num_repeats, suite.warmup, suite.repeats, suite.deadline_s) == (3, 2, 5, 60.0)
    assert suite.benchmarks[0].deadline_s == 1.5
    assert suite.checkpoints[0].spec is not None
    layers = {"one": ArraySpec("bfloat16", (), ()), "name": "str", "more": {}}
    assert suite.checkpoints[0].spec["layers"] == layers


def test_hybrid_meshes_paths_and_axis_groups_are_read() -> None:
    text = changed(
        (
            "  ici_parallelism: {data: 2, model: 2}\n",
            "  ici_parallelism: {model: 2}\n  dcn_parallelism: {data: 2}\n",
        ),
        ("[data, model]}", "[[data, model], null]}"),
        (
            "checkpoint_config:\n  spec",
            "checkpoint_configs:\n- path: gs://b/ckpt\n  sharding_config_path: x.json\n- spec",
        ),
        ("mesh_axes", "process_is_granule: true\n  mesh_axes"),
    )
    suite = read_suite(text, "s.yaml")
    assert suite.meshes == (MeshSpec(("data", "model"), {"model": 2}, {"data": 2}, process_is_granule=True),)
    assert suite.checkpoints[0] == CheckpointSpec(path="gs://b/ckpt", sharding_config_path="x.json")
    assert suite.checkpoints[1].spec is not None
    assert suite.checkpoints[1].spec["a"] == ArraySpec("float32", (8, 8), (("data", "model"), None))


def test_a_null_dcn_parallelism_is_none_and_an_empty_one_is_not() -> None:
    axes = "  mesh_axes: [data, model]\n"
    null, empty = (changed((axes, f"{axes}  dcn_parallelism: {value}\n")) for value in ("null", "{}"))
    assert read_suite(null, "s.yaml").meshes[0].dcn_parallelism is None
    assert read_suite(empty, "s.yaml").meshes[0].dcn_parallelism == {}


def test_a_native_name_means_the_same_as_orbax_name() -> None:
    native = read_suite(changed((PYTREE, "runtime.benchmarks.pytree_checkpoint.PyTreeCheckpoint")), "s.yaml")
    assert native.benchmarks == read_suite(GOOD, "s.yaml").benchmarks


@pytest.mark.parametrize(
    ("generator", "implementation", "expected"),
    [
        (PYTREE, "orbax", "orbax"),
        (PYTREE, "native", "native"),
        ("mine.benchmarks.Fast", None, "user"),
        (f"{ORBAX}.v1.snapshotter_benchmark.SnapshotterBenchmark", None, "orbax"),
    ],
)
def test_who_implements_a_benchmark(generator: str, implementation: str | None, expected: str) -> None:
    chosen = f"    implementation: {implementation}\n" if implementation else ""
    text = changed(
        (PYTREE, generator),
        ("    options:\n      use_ocdbt: [true, false]\n", f"{chosen}    options: {{}}\n"),
    )
    assert read_suite(text, "s.yaml").benchmarks[0].implementation == expected


def test_simdevice_is_read_and_said_to_be_unused() -> None:
    text = (
        GOOD
        + "simdevice: {device_type: v6e, topology: [2, 2, 1], num_processes: 2, fabricated_fill_seed: 7}\n"
    )
    suite = read_suite(text, "s.yaml")
    assert suite.simdevice == SimDeviceSpec("v6e", (2, 2, 1), 2, 7)
    assert [str(warning) for warning in suite.warnings] == [
        "s.yaml:13:1: warning: simdevice is checked but not used, benchmarks run on the devices of the target, "
        "choose a target with as many devices"
    ]


_CASES = yaml.safe_load((Path(__file__).parent / "suite_mistakes.yaml").read_text())


@pytest.mark.parametrize("case", _CASES, ids=lambda case: case["says"][:40])
def test_each_mistake_is_told_with_its_place_and_remedy(case: dict[str, Any]) -> None:
    text = changed(*((each["from"], each["to"]) for each in case["change"]))
    assert f"s.yaml:{case['says']}" in told(text)
    with pytest.raises(BadInput):
        read_suite(text, "s.yaml")


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file() -> None:
    pairs = [("Good", "7"), ("model: 2}", "modle: 2}"), ("float32", "float31"), ("use_ocdbt", "use_ocdb")]
    with pytest.raises(BadInput) as refusal:
        read_suite(changed(*pairs) + "warmup: 1\nwarmup: 1\n", "s.yaml")
    lines = [problem.place.line for problem in refusal.value.problems if problem.place]
    assert lines == [1, 4, 7, 12, 14]


def test_a_baseline_file_is_a_warning_for_runs_are_compared_by_themselves() -> None:
    suite = read_suite("baseline_path: gs://b/x.json\nbaseline_capture_path: null\n" + changed(), "s.yaml")
    assert [str(warning) for warning in suite.warnings] == [
        "s.yaml:1:1: warning: baseline_path is checked but not used, "
        "a run is compared with all earlier ones in its output, leave it out"
    ]


def test_an_axis_of_size_one_that_a_mesh_lacks_is_a_warning() -> None:
    (line,) = told(changed(("model: 2}", "model: 2, expert: 1}")))
    assert line.startswith("s.yaml:4:40: warning: ici_parallelism names axis 'expert', which mesh_axes lacks")
    assert len(read_suite(changed(("model: 2}", "model: 2, expert: 1}")), "s.yaml").warnings) == 1


def test_a_class_that_orbax_may_have_got_since_is_a_warning_with_the_nearest_known() -> None:
    (line,) = told(changed((PYTREE, PYTREE.replace("pytree_checkpoint_b", "pytree_chekpoint_b"))))
    assert "warning: Orbax 0.12.8 has no benchmark" in line
    assert line.endswith(f"did you mean {PYTREE}?")


@pytest.mark.parametrize("name", ["PyTreeChekpointBenchmark", "NoSuchBench"])
def test_a_class_that_a_known_module_of_orbax_lacks_is_an_error_with_the_nearest_name(name: str) -> None:
    with pytest.raises(BadInput, match="has no benchmark") as refusal:
        read_suite(changed((PYTREE, f"{PYTREE.rpartition('.')[0]}.{name}")), "s.yaml")
    (problem,) = refusal.value.problems
    assert problem.why == "its module has PyTreeCheckpointBenchmark"
    assert problem.fix == f"did you mean {PYTREE}?"


def test_native_cannot_be_forced_where_there_is_none_nor_anything_for_a_class_of_the_user() -> None:
    options = "    options:\n      use_ocdbt: [true, false]\n"
    snapshotter = f"{ORBAX}.v1.snapshotter_benchmark.SnapshotterBenchmark"
    forced = (options, "    implementation: native\n    options: {}\n")
    (line,) = told(changed((PYTREE, snapshotter), forced))
    assert line.startswith("s.yaml:11:21: SnapshotterBenchmark has no native implementation")
    (line,) = told(changed((PYTREE, "mine.Fast"), forced))
    assert line.startswith("s.yaml:11:5: implementation cannot be chosen here")


@pytest.mark.parametrize(
    ("block", "words"),
    [
        ("{device_type: v6e}", "simdevice has no topology"),
        ("{device_type: v6e, topology: [2, 2]}", "topology must have three sizes"),
        ("{device_type: v6e, topology: [2, 2, 0]}", "a size in topology must be an integer of at least 1"),
        ("{device_type: '', topology: [2, 2, 1]}", "device_type must be text, not empty"),
        ("{device_type: v6e, topology: [2, 2, 1], num_processes: 0}", "num_processes must be an integer"),
        ("{device_type: v6e, topology: [2, 2, 1], fabricated_fill_seed: 4294967296}", "at most 4294967295"),
        ("{device_type: v6e, topology: [2, 2, 1], seed: 1}", "unknown key 'seed' in simdevice"),
        ("v6e", "simdevice must be a mapping"),
    ],
)
def test_a_malformed_simdevice_is_refused(block: str, words: str) -> None:
    assert any(words in line for line in told(f"{GOOD}simdevice: {block}\n"))


def test_the_dtypes_are_names_of_jax_numpy() -> None:
    import jax.numpy as jnp
    import numpy as np

    for name in DTYPES:
        assert isinstance(jnp.dtype(getattr(jnp, name)), np.dtype)


def test_no_text_is_a_suite_that_is_not_one() -> None:
    assert told("[]") == [
        "s.yaml:1:1: a suite must be a mapping, not a list, write suite_name: … and benchmarks: …"
    ]
    assert told("") == ["s.yaml:1:1: the file is empty, see configs/ for examples"]
