"""Checkpoints that a suite makes for itself are loaded into other shardings; what is missing or wrong fails."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from runtime.benchmarks import digests, references
from runtime.checksum import checksums
from runtime.contract.suite_reader import check_text
from runtime.verify import NotEqual

RunText = Callable[[str], Any]

ORBAX = "orbax.checkpoint._src.testing.benchmarks."
RESHARDING = ORBAX + "v1.resharding_benchmark.ReshardingBenchmark"
BROADCAST = ORBAX + "v1.restore_and_broadcast_benchmark.RestoreAndBroadcastBenchmark"
PARALLEL = ORBAX + "v1.replica_parallel_multislice_benchmark.ReplicaParallelMultislice"
LOAD = ORBAX + "orbax_load.load_benchmark.OrbaxLoadBenchmark"
SAFETENSORS = ORBAX + "safetensors.load_benchmark.SafetensorLoadBenchmark"

MADE = """
suite_name: made
num_repeats: 2
mesh_config: {mesh_axes: [replica, model], ici_parallelism: {replica: 4, model: 2}}
checkpoint_config:
  spec:
    layer: {w: {dtype: bfloat16, shape: [16, 8], sharding: [model, null]}}
    v: {dtype: float32, shape: [8], sharding: [[replica, model]]}
benchmarks:
  - {generator: runtime.benchmarks.reference.Reference, options: {to: "{run}/made", meshes: "8x1 2x4 1x2", LAYOUT}}
"""
PATHS = 'reference_checkpoint_path: "{run}/made/ckpt", reference_sharding_path: '


def suite(*items: str, layout: str = "layout: orbax") -> str:
    return MADE.replace("LAYOUT", layout) + "".join(f"  - {{{item}}}\n" for item in items)


def causes(outcome: Any) -> list[tuple[str, str]]:
    return [(each.status, each.cause) for each in outcome.results]


def test_one_suite_generates_and_reshards(run_text: RunText, tmp_path: Path) -> None:
    shardings = '["{run}/made/8x1.json", "{run}/made/2x4.json"]'
    outcome = run_text(suite(f"generator: {RESHARDING}, options: {{{PATHS}{shardings}}}"))
    assert causes(outcome) == [("passed", "")] * 3
    assert {each.implementation for each in outcome.results} == {"native"}
    assert outcome.operations(0) == [("save", 0)], "made once"
    assert outcome.operations(1) == outcome.operations(2) == [("load", 0)] * 2
    assert len({each.benchmark_key for each in outcome.results}) == 3
    assert not (tmp_path / "run" / "checkpoints" / "references").exists(), "what was made is gone"


def test_replicas_load_and_save_a_reference(run_text: RunText) -> None:
    one = PATHS + '"{run}/made/1x2.json"'
    outcome = run_text(
        suite(
            f"generator: {BROADCAST}, options: {{{one}, use_load_and_broadcast: [true, false]}}",
            f"generator: {PARALLEL}, options: {{{one}, use_replica_parallel: true, num_savings: 2, "
            "async_enabled: [true, false]}",
        ).replace("[replica, model]]", "null]")
    )
    assert causes(outcome) == [("passed", "")] * 5
    assert outcome.operations(1) == outcome.operations(2) == [("load", 0)] * 2
    parts = [("save_blocking", 0), ("save_background", 0), ("save_blocking", 1), ("save_background", 1)]
    assert outcome.operations(3) == parts * 2
    assert outcome.operations(4) == [("save", 0), ("save", 1)] * 2


@pytest.mark.parametrize(("generator", "layout"), [(LOAD, "orbax"), (SAFETENSORS, "safetensors")])
def test_digests_are_captured_and_compared(run_text: RunText, generator: str, layout: str) -> None:
    path = 'checkpoint_path: "{run}/made/ckpt", sharding_config_path: "{run}/made/2x4.json"'
    outcome = run_text(
        suite(
            f'generator: {generator}, options: {{{path}, capture_digests_path: "{{run}}/digests"}}',
            f'generator: {generator}, options: {{{path}, reference_digests_path: "{{run}}/digests"}}',
            f'generator: {generator}, options: {{{path}, reference_digests_path: "{{run}}/nothing"}}',
            f'generator: {generator}, options: {{checkpoint_path: "{{run}}/made/ckpt"}}',
            layout=f"layout: {layout}",
        )
    )
    told = causes(outcome)
    assert [told[index] for index in (0, 1, 2, 4)] == [("passed", "")] * 4
    assert told[3][0] == "failed" and "there are no digests at" in told[3][1]
    sizes = [each.value for each in outcome.samples if each.metric == "checkpoint_bytes"]
    assert len(sizes) == 6 and min(sizes) > 16 * 8 * 2 + 8 * 4


def test_a_reference_that_is_not_there_is_a_failure(run_text: RunText) -> None:
    outcome = run_text(
        suite(f'generator: {RESHARDING}, options: {{{PATHS}"{{run}}/made/8x1.json"}}').replace(
            "{run}/made/ckpt", "{run}/elsewhere"
        )
    )
    assert outcome.results[1].status == "failed"
    assert "there is no checkpoint at" in outcome.results[1].cause


def test_a_load_that_gives_something_else_is_a_failure(
    run_text: RunText, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, loads = references.load, iter(range(9))

    def load(path: str, target: Any) -> Any:
        tree = real(path, target)
        return jax.tree.map(lambda array: array + 1, tree) if next(loads) == 2 else tree

    monkeypatch.setattr(references, "load", load)
    outcome = run_text(suite(f'generator: {RESHARDING}, options: {{{PATHS}"{{run}}/made/8x1.json"}}'))
    assert outcome.results[1].status == "failed"
    assert "layer.w came back as something else" in outcome.results[1].cause


def test_only_what_is_for_others_may_be_given_to_a_benchmark_that_reads() -> None:
    item = f'generator: {RESHARDING}, options: {{{PATHS}"s.json"}}'
    assert check_text(suite(item), "s.yaml") == []
    alone = suite(item).replace("  - {generator: runtime.benchmarks.reference", "  # - {").strip()
    (problem,) = check_text(alone, "s.yaml")
    assert "ReshardingBenchmark takes no checkpoint of the suite" in str(problem)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("{to: x, layout: zip}", "layout must be one of orbax, safetensors, not zip"),
        ("{to: x, meshes: 4by2}", "meshes must be sizes of the mesh's axes such as '4x1 2x2', not '4by2'"),
        ("{}", "Reference needs option to"),
    ],
)
def test_references_that_make_no_sense_are_refused(options: str, says: str) -> None:
    text = suite().replace('{to: "{run}/made", meshes: "8x1 2x4 1x2", layout: orbax}', options)
    assert any(says in str(problem) for problem in check_text(text, "s.yaml"))


@pytest.fixture
def tree() -> Iterator[Any]:
    mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(4, 2), ("a", "b"))

    def laid(array: Any, *spec: Any) -> jax.Array:
        return jax.device_put(array, jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*spec)))

    values = np.arange(64).reshape(8, 8)
    yield {
        str(np.dtype(dtype)): (laid(values.astype(dtype), "a"), laid(values.astype(dtype), "b", "a"))
        for dtype in (np.float32, jnp.bfloat16, np.int8, np.bool_, np.float64, np.complex64)
    }


def test_checksums_do_not_depend_on_shardings(tree: Any) -> None:
    sums = checksums(tree)
    assert len(sums) == 12
    for name in tree:
        assert sums[f"{name}.0"] == sums[f"{name}.1"]


def test_checksums_depend_on_values_and_their_places(tree: Any) -> None:
    for name, (array, _) in tree.items():
        values = np.array(array)
        swapped, changed = values.copy(), values.copy()
        swapped[[0, 1]] = swapped[[1, 0]]
        changed[7, 7] = 1 - changed[7, 7] if name != "bool" else ~changed[7, 7]
        several = checksums({"a": jnp.asarray(values), "b": jnp.asarray(swapped), "c": jnp.asarray(changed)})
        assert len(set(several.values())) == 3, (name, several)


def test_digests_are_orbaxs(tree: Any, tmp_path: Path) -> None:
    """As its own harness computes them, which this venv cannot import: SHA-256 of dtype, shape and bytes."""
    import hashlib

    one = {"w": jnp.arange(4, dtype=jnp.float32)}
    digests.capture(str(tmp_path), one)
    told = json.loads((tmp_path / "host_00000.json").read_text())
    expected = hashlib.sha256(b"<f4" + b"(4,)" + np.arange(4, dtype="<f4").tobytes()).hexdigest()
    assert told == {"['w']": expected}
    digests.compare(str(tmp_path), one)
    for other, says in (
        ({"w": jnp.arange(4.0, 8.0, dtype=jnp.float32)}, "is not what"),
        ({"v": one["w"]}, "are not both in"),
    ):
        with pytest.raises(NotEqual, match=says):
            digests.compare(str(tmp_path), other)
