"""A checkpoint that exists is read as the point's data: nested, sharded by config or widely, proven by digest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest

from runtime import pytree, verify
from runtime.contract.suite import CheckpointSpec

W = np.arange(64, dtype=np.float32).reshape(16, 4)


@pytest.fixture(params=[True, False], ids=["ocdbt", "no ocdbt"])
def checkpoint(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "checkpoint"
    tree = {"layer": {"w": jax.numpy.asarray(W)}, "bias": jax.numpy.ones(8)}
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(use_ocdbt=request.param)) as checkpointer:
        checkpointer.save(path, args=ocp.args.PyTreeSave(tree))
    return path


def test_arrays_are_spread_over_all_devices(checkpoint: Path) -> None:
    tree = pytree.load(CheckpointSpec(path=str(checkpoint)))
    assert sorted(tree) == ["bias", "layer"]
    np.testing.assert_array_equal(np.asarray(tree["layer"]["w"]), W)
    assert len(tree["layer"]["w"].sharding.device_set) == jax.device_count()
    assert not tree["layer"]["w"].sharding.is_fully_replicated


def config(path: Path, **more: Any) -> str:
    mesh = {"shape": [2, jax.device_count() // 2], "axes": ["data", "model"]}
    leaf = {"shape": [16, 4], "dtype": "float32", "sharding": {"mesh": mesh, "spec": [["data", "model"]]}}
    bias = {"shape": [8], "dtype": "float32", "sharding": {"mesh": mesh, "spec": ["model"]}}
    path.write_text(json.dumps({"layer.w": {**leaf, **more}, "bias": bias}))
    return str(path)


def test_a_sharding_config_decides(checkpoint: Path, tmp_path: Path) -> None:
    spec = CheckpointSpec(path=str(checkpoint), sharding_config_path=config(tmp_path / "sharding.json"))
    tree = pytree.load(spec)
    assert tree["layer"]["w"].sharding.spec == jax.sharding.PartitionSpec(("data", "model"))
    assert tree["bias"].sharding.spec == jax.sharding.PartitionSpec("model")
    np.testing.assert_array_equal(np.asarray(tree["layer"]["w"]), W)


def test_what_was_read_can_be_verified_after_it_is_freed(checkpoint: Path) -> None:
    spec = CheckpointSpec(path=str(checkpoint))
    tree = pytree.load(spec)
    expected = verify.expect(tree, None, "")
    pytree.free(tree)
    again = pytree.load(spec)
    verify.check(expected, again)
    again["layer"]["w"] = again["layer"]["w"] + 1
    with pytest.raises(verify.NotEqual, match=r"layer\.w"):
        verify.check(expected, again)


def test_a_checkpoint_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises((FileNotFoundError, ValueError), match="nothing-here"):
        pytree.load(CheckpointSpec(path=str(tmp_path / "nothing-here")))
