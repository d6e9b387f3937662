"""Makes a checkpoint for the benchmarks that come after it in the suite, and shardings to load it with."""

from __future__ import annotations

import json
from typing import Any

import jax
import numpy as np
from etils import epath
from orbax.checkpoint import multihost
from orbax.checkpoint import v1 as ocp

from runtime import distributed, pytree
from runtime.benchmarks.benchmark import Benchmark, Context
from runtime.contract.options_references import ReferenceOptions
from runtime.contract.suite import ArraySpec

_SAFETENSORS_NAMES = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint8": "U8",
    "bool": "BOOL",
}


class Reference(Benchmark):
    """Operation: `save`, in the first repeat; those that follow find the checkpoint there and leave it."""

    options_class = ReferenceOptions
    options: ReferenceOptions

    def run(self, context: Context) -> None:
        folder = epath.Path(self.options.to)
        path = folder / "ckpt"
        if distributed.largest(int(path.exists())):  # all see the same: whoever goes on makes it
            return
        if jax.process_index() == 0:
            folder.mkdir(parents=True, exist_ok=True)
            for sizes in (self.options.meshes or "").split():
                (folder / f"{sizes}.json").write_text(json.dumps(_shardings(context, sizes), indent=1))
        if self.options.layout == "safetensors":
            with context.measure("save"):
                if jax.process_index() == 0:
                    path.mkdir()
                    (path / "model.safetensors").write_bytes(_safetensors(context))
                multihost.sync_global_processes("reference")
            return
        # Else a worker that is early forgets what a later one still waits for, and that waits forever (Orbax 0.12.8).
        waiting = ocp.options.AsyncOptions(create_directories_asynchronously=False)
        saved = pytree.saved_bytes(context.tree)
        with ocp.Context(async_options=waiting), context.measure("save", payload_bytes=saved):
            ocp.save(path, context.tree)


def _arrays(context: Context) -> dict[str, ArraySpec]:
    """Returns the arrays of the point's spec by dotted path. Raises ValueError for other leaves and other data."""
    if context.point.checkpoint.spec is None:
        raise ValueError("a reference is made of a checkpoint_config with spec:")
    found = dict(pytree.leaves(context.point.checkpoint.spec))
    for name, each in found.items():
        if not isinstance(each, ArraySpec):
            raise ValueError(f"a reference holds arrays only, and {name} is {each}: remove it from spec")
    return {name: each for name, each in found.items() if isinstance(each, ArraySpec)}


def _shardings(context: Context, sizes: str) -> dict[str, Any]:
    """Returns what Orbax's benchmarks read of each array: shape, dtype, and its sharding over a mesh of these sizes."""
    if context.mesh is None:
        raise ValueError("shardings need a mesh: give mesh_config")
    shape, axes = [int(size) for size in sizes.split("x")], list(context.mesh.axis_names)
    if len(shape) != len(axes):
        raise ValueError(f"meshes: {sizes} has {len(shape)} axes, and the suite's mesh has {len(axes)}")
    return {
        name: {
            "shape": list(each.shape),
            "dtype": each.dtype,
            "sharding": {"mesh": {"shape": shape, "axes": axes}, "spec": list(each.sharding or ())},
        }
        for name, each in _arrays(context).items()
    }


def _safetensors(context: Context) -> bytes:
    """Returns the arrays as a file of safetensors: length of the header, header, data."""
    seed = pytree.seed_of(context.point.checkpoint, context.repeat)
    header: dict[str, Any] = {}
    parts: list[bytes] = []
    end = 0
    for name, each in _arrays(context).items():
        kind = _SAFETENSORS_NAMES.get(each.dtype)
        if kind is None:
            raise ValueError(f"safetensors have no dtype {each.dtype}")
        whole = tuple(slice(0, size) for size in each.shape)
        part = np.ascontiguousarray(pytree.content_of(each, name, seed).part(whole)).tobytes()
        header[name] = {"dtype": kind, "shape": list(each.shape), "data_offsets": [end, end + len(part)]}
        end += len(part)
        parts.append(part)
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + b"".join(parts)
