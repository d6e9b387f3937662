"""Trees are made shard by shard: same content whatever the sharding, and never a whole leaf on the host."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from runtime import pytree
from runtime.content import Content, Index
from runtime.contract.suite import ArraySpec, CheckpointSpec

DEVICES = 4
ROOT = Path(__file__).parents[2]


@pytest.fixture
def mesh() -> jax.sharding.Mesh:
    return jax.sharding.Mesh(np.array(jax.devices()[:DEVICES]).reshape(2, 2), ("data", "model"))


def array(
    shape: tuple[int, ...], *sharding: str | tuple[str, ...] | None, dtype: str = "float32"
) -> ArraySpec:
    return ArraySpec(dtype, shape, sharding or None)


def test_content_does_not_depend_on_sharding(mesh: jax.sharding.Mesh) -> None:
    layouts = [(), ("data",), ("data", "model"), (None, ("data", "model")), (("model", "data"), None)]
    made = [np.asarray(pytree.generate({"w": array((8, 16), *layout)}, "0", mesh)["w"]) for layout in layouts]
    made.append(np.asarray(pytree.generate({"w": array((8, 16))}, "0", None)["w"]))
    for other in made[1:]:
        np.testing.assert_array_equal(made[0], other)


def test_arrays_lie_as_the_spec_says(mesh: jax.sharding.Mesh) -> None:
    tree = pytree.generate({"w": array((8, 16), "data", None), "r": array((4,))}, "0", mesh)
    assert tree["w"].sharding.spec == jax.sharding.PartitionSpec("data", None)
    assert tree["r"].sharding.is_fully_replicated


def test_scalars_and_nested_trees() -> None:
    spec = {
        "step": "int",
        "name": "str",
        "layer": {"w": array((4,)), "deep": {"b": array((2,), dtype="int8")}},
    }
    tree = pytree.generate(spec, "0", None)
    assert (tree["step"], tree["name"]) == (0, "default_string")
    assert tree["layer"]["deep"]["b"].dtype == np.int8
    assert [path for path, _ in pytree.leaves(spec)] == ["step", "name", "layer.w", "layer.deep.b"]


def test_each_repeat_has_data_of_its_own() -> None:
    seeds = [pytree.seed_of(CheckpointSpec(random_seed=seed), repeat) for seed in (0, 1) for repeat in (0, 1)]
    assert len(set(seeds)) == 4


def test_a_sharding_without_mesh_is_refused() -> None:
    with pytest.raises(ValueError, match="array w has a sharding"):
        pytree.generate({"w": array((8,), "data")}, "0", None)


def test_a_sharding_that_does_not_divide_names_the_array(mesh: jax.sharding.Mesh) -> None:
    with pytest.raises(ValueError, match=r"array layer\.w"):
        pytree.generate({"layer": {"w": array((7,), "data")}}, "0", mesh)


def test_no_part_is_made_twice_and_none_is_larger_than_a_shard(
    mesh: jax.sharding.Mesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, ...]] = []
    plain = Content.part

    def counted(self: Content, index: Index) -> np.ndarray:
        made = plain(self, index)
        asked.append(made.shape)
        return made

    monkeypatch.setattr(Content, "part", counted)
    pytree.generate({"w": array((8, 16), "data", None)}, "0", mesh)
    assert asked == [(4, 16), (4, 16)]


def test_bytes_saved_count_one_copy_and_bytes_held_each_part(mesh: jax.sharding.Mesh) -> None:
    tree = pytree.generate({"w": array((8, 16), "data", None), "n": "int"}, "0", mesh)
    assert pytree.saved_bytes(tree) == pytree.held_bytes(tree) == 8 * 16 * 4


def test_freed_arrays_are_gone() -> None:
    tree = pytree.generate({"w": array((8,))}, "0", None)
    pytree.free(tree)
    assert tree["w"].is_deleted()
    pytree.free(tree)


MEMORY = """
import resource, jax, numpy as np
from runtime import pytree
from runtime.contract.suite import ArraySpec

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

mesh = jax.sharding.Mesh(np.array(jax.devices()), ("data",))
spec = lambda rows: {"w": ArraySpec("float32", (rows, 1024), ("data",))}
pytree.generate(spec(64), "0", mesh)
before = peak()
tree = pytree.generate(spec(65536), "0", mesh)
jax.block_until_ready(tree)
print((peak() - before) / tree["w"].nbytes)
"""


def test_a_large_leaf_is_in_memory_once() -> None:
    """256 MiB over 8 devices: the leaf itself and one shard on its way, not a second copy, nor float64."""
    environ = {**os.environ, "JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "8", "PYTHONPATH": str(ROOT)}
    told = subprocess.run(
        [sys.executable, "-c", MEMORY], env=environ, capture_output=True, text=True, check=True
    )
    assert float(told.stdout) < 1.3
