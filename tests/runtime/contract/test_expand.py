"""Points: their order, labels and keys. A key must not change unless what is measured does."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import pytest

from runtime.contract.errors import BadInput
from runtime.contract.expand import dropped, expand
from runtime.contract.keys import plain
from runtime.contract.suite import MeshSpec
from runtime.contract.suite_reader import check_text, read_suite

ORBAX = "orbax.checkpoint._src.testing.benchmarks"
PYTREE = f"{ORBAX}.pytree_checkpoint_benchmark.PyTreeCheckpointBenchmark"
MANAGER = f"{ORBAX}.checkpoint_manager_benchmark.CheckpointManagerBenchmark"
ROOT = Path(__file__).parents[3]

SUITE = f"""\
suite_name: s
deadline_s: 60
mesh_configs:
  - {{mesh_axes: [data, model], ici_parallelism: {{data: 2, model: 2}}}}
  - {{mesh_axes: [data, model], ici_parallelism: {{data: 4}}}}
checkpoint_configs:
  - {{spec: {{a: {{dtype: float32, shape: [8, 8], sharding: [data, model]}}}}}}
  - {{spec: {{a: {{dtype: float32, shape: [16, 8], sharding: [data, model]}}, n: int}}}}
benchmarks:
  - generator: {PYTREE}
    options: {{use_zarr3: [true, false], use_ocdbt: [false, true]}}
  - generator: {MANAGER}
    options: {{}}
    deadline_s: 5
"""


KEYS = ["1a901da645859a2e", "fae9626f7cf7941e", "49657a65586ee86b"]


def key(text: str, index: int = 0) -> str:
    return expand(read_suite(text, "s.yaml"))[index].key


def test_options_vary_slowest_then_meshes_then_checkpoints() -> None:
    points = expand(read_suite(SUITE, "s.yaml"))
    assert [point.index for point in points] == list(range(20))
    seen = [
        (
            point.options["use_ocdbt"],
            point.options["use_zarr3"],
            point.mesh and point.mesh.sizes,
            point.checkpoint.spec,
        )
        for point in points[:16]
    ]
    assert [one[0] for one in seen] == [False] * 8 + [True] * 8
    assert [one[1] for one in seen] == ([True] * 4 + [False] * 4) * 2
    assert [one[2] for one in seen] == [(2, 2), (2, 2), (4, 1), (4, 1)] * 4
    assert [len(one[3] or {}) for one in seen] == [1, 2] * 8
    assert [point.deadline_s for point in points] == [60.0] * 16 + [5.0] * 4


def test_labels_say_what_varies_and_are_unique() -> None:
    labels = [point.benchmark for point in expand(read_suite(SUITE, "s.yaml"))]
    assert labels[0] == "PyTreeCheckpointBenchmark[use_ocdbt=False,use_zarr3=True,mesh=0,checkpoint=0]"
    assert labels[-1] == "CheckpointManagerBenchmark[mesh=1,checkpoint=1]"
    assert len(set(labels)) == 20


def test_benchmarks_that_would_share_a_label_get_their_number() -> None:
    again = f"  - generator: {MANAGER}\n    options: {{train_steps: 3}}\n"
    labels = [point.benchmark for point in expand(read_suite(SUITE + again, "s.yaml"))]
    assert labels[16] == "CheckpointManagerBenchmark[mesh=0,checkpoint=0,benchmark=1]"
    assert labels[20] == "CheckpointManagerBenchmark[mesh=0,checkpoint=0,benchmark=2]"
    assert len(set(labels)) == 24


def test_invalid_combinations_are_dropped_and_known() -> None:
    options = "{use_replica_parallel: [true, false], enable_replica_parallel_separate_folder: [true, false]}"
    suite = read_suite(
        SUITE.replace("{use_zarr3: [true, false], use_ocdbt: [false, true]}", options), "s.yaml"
    )
    (left_out,) = dropped(suite)
    assert left_out.why == "enable_replica_parallel_separate_folder needs use_replica_parallel"
    assert left_out.generator == PYTREE
    assert left_out.options["use_replica_parallel"] is False
    assert len(expand(suite)) == 3 * 4 + 4


def test_keys_are_what_they_always_were() -> None:
    """History is joined by these: where they change, every series starts anew."""
    points = expand(read_suite(SUITE, "s.yaml"))
    assert [points[0].key, points[5].key, points[16].key] == KEYS


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("deadline_s: 60", "deadline_s: 61"),
        ("suite_name: s", "suite_name: t\nnum_repeats: 9\nwarmup: 3"),
        ("use_ocdbt: [false, true]", "use_ocdbt: false"),
        ("use_zarr3: [true, false]", "async_enabled: true, use_zarr3: [true, false]"),
        ("{data: 2, model: 2}", "{model: 2, data: 2}"),
        ("- {mesh_axes: [data, model], ici", "- {process_is_granule: false, mesh_axes: [data, model], ici"),
        ("- {spec", "- {random_seed: 0, path: null, spec"),
        (PYTREE, "runtime.benchmarks.pytree_checkpoint.PyTreeCheckpoint"),
        ("options: {use_zarr3", "implementation: native\n    options: {use_zarr3"),
    ],
)
def test_a_key_ignores_what_does_not_change_the_measurement(old: str, new: str) -> None:
    assert old in SUITE
    assert key(SUITE.replace(old, new)) == key(SUITE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("use_zarr3: [true, false]", "use_compression: false, use_zarr3: [true, false]"),
        ("{data: 2, model: 2}", "{data: 1, model: 2}"),
        ("ici_parallelism: {data: 2, model: 2}", "ici_parallelism: {model: 2}, dcn_parallelism: {data: 2}"),
        ("[8, 8]", "[8, 16]"),
        ("float32, shape: [8, 8]", "bfloat16, shape: [8, 8]"),
        ("shape: [8, 8], sharding: [data, model]", "shape: [8, 8], sharding: [model, data]"),
        ("- {spec", "- {random_seed: 1, spec"),
        ("options: {use_zarr3", "implementation: orbax\n    options: {use_zarr3"),
    ],
)
def test_a_key_changes_with_what_is_measured(old: str, new: str) -> None:
    assert old in SUITE
    assert key(SUITE.replace(old, new)) != key(SUITE)


def test_keys_do_not_depend_on_the_process() -> None:
    program = (
        "import json, sys\n"
        "from runtime.contract.suite_reader import read_suite\n"
        "from runtime.contract.expand import expand\n"
        "print(json.dumps([p.key for p in expand(read_suite(sys.stdin.read(), 's.yaml'))]))"
    )
    told = subprocess.run(
        [sys.executable, "-c", program],
        input=SUITE,
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "7"},
    )
    assert json.loads(told.stdout) == [point.key for point in expand(read_suite(SUITE, "s.yaml"))]


def test_the_same_thing_twice_is_refused() -> None:
    again = f"  - generator: {MANAGER}\n    options: {{train_steps: 1}}\n"
    (problem,) = check_text(SUITE + again, "s.yaml")
    assert str(problem).startswith(
        "s.yaml:15:5: this measures what the benchmark on line 12 measures already"
    )
    (problem,) = check_text(SUITE.replace("{data: 4}", "{model: 2, data: 2}"), "s.yaml")
    assert str(problem).startswith("s.yaml:5:5: this mesh is the one of line 4 again")


def test_a_suite_that_explodes_is_refused_quickly() -> None:
    numbers = list(range(200))
    options = f"{{save_interval_steps: {numbers}, max_to_keep: {numbers}, train_steps: {numbers}}}"
    (problem,) = check_text(SUITE.replace("options: {}", f"options: {options}"), "s.yaml")
    assert "8000000 combinations of options" in str(problem)


def test_specs_become_plain_json() -> None:
    suite = read_suite(SUITE, "s.yaml")
    assert json.loads(json.dumps(plain(suite.meshes[0])))["mesh_axes"] == ["data", "model"]
    spec = plain(suite.checkpoints[1])["spec"]
    assert spec == {"a": {"dtype": "float32", "shape": [16, 8], "sharding": ["data", "model"]}, "n": "int"}


def test_a_mesh_knows_its_sizes() -> None:
    mesh = MeshSpec(("a", "b", "c"), {"a": 2, "b": 3}, {"b": 2})
    assert mesh.sizes == (2, 6, 1)
    assert dataclasses.replace(mesh, dcn_parallelism=None).sizes == (2, 3, 1)


OWN = "suite_name: s\nbenchmarks:\n  - {generator: my.Own, options: {}}\n"


SWEEP = """\
suite_name: s
{}
checkpoint_config: {{spec: {{a: int}}}}
benchmarks:
  - {{generator: runtime.benchmarks.reference.Reference, options: {{to: "{{run}}/r"}}}}
  - {{generator: my.Own, options: {{x: [1, 2, 3]}}}}
"""


@pytest.mark.parametrize(
    ("only", "chosen"),
    [
        ("", ["Reference", "Own[x=1]", "Own[x=2]", "Own[x=3]"]),
        ('only: ["Own[x=2]"]', ["Reference", "Own[x=2]"]),
        ("only: [4, 2]", ["Reference", "Own[x=1]", "Own[x=3]"]),
        ("only: [KEY]", ["Reference", "Own[x=3]"]),
    ],
)
def test_a_suite_may_measure_only_some_of_what_it_describes(only: str, chosen: list[str]) -> None:
    whole = {one.benchmark: one for one in expand(read_suite(SWEEP.format(""), "s.yaml"))}
    points = expand(read_suite(SWEEP.format(only.replace("KEY", whole["Own[x=3]"].key)), "s.yaml"))
    assert [one.benchmark for one in points] == chosen
    assert points == [dataclasses.replace(whole[name], index=n) for n, name in enumerate(chosen)]


@pytest.mark.parametrize(
    ("only", "told"),
    [
        ("only: [Own]", r"s.yaml:2:8: the suite has no benchmark 'Own'"),
        ("only: [5]", "write a number from 1 to 4, or a name: Reference"),
        ("only: []", "only names no benchmark"),
        ("only: 3", "only must be a list"),
        ("only: [[1]]", "must be"),
    ],
)
def test_what_a_suite_has_not_cannot_be_chosen(only: str, told: str) -> None:
    with pytest.raises(BadInput, match=told):
        read_suite(SWEEP.format(only), "s.yaml")


def test_cold_reads_are_a_benchmark_of_their_own() -> None:
    warm, cold, dropped = (
        expand(read_suite(f"{line}\n{OWN}", "s.yaml"))[0]
        for line in ("", "page_cache: cold", "page_cache: drop")
    )
    assert (warm.page_cache, cold.page_cache, dropped.page_cache) == ("", "cold", "drop")
    assert len({warm.key, cold.key, dropped.key}) == 3
    with pytest.raises(BadInput, match="page_cache must be cold or drop, not 'warm'"):
        read_suite(f"page_cache: warm\n{OWN}", "s.yaml")
