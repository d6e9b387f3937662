"""The tree a point saves: generated shard by shard from its spec, or read from a checkpoint that exists."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from runtime.content import Content, Index
from runtime.contract.suite import ArraySpec, CheckpointSpec, TreeSpec

Tree = Any
"""A pytree: nested dicts with arrays and scalars at the leaves."""

SCALARS: Mapping[str, int | str] = {"int": 0, "str": "default_string"}


def seed_of(checkpoint: CheckpointSpec, repeat: int) -> str:
    """Returns the seed of a repeat: each has data of its own, so that stale ones cannot pass for new."""
    return f"{checkpoint.random_seed}/{repeat}"


_AT_ONCE_BYTES = 8 << 20
"""Parts smaller than this together go to their devices in one call."""


def generate(spec: TreeSpec, seed: str, mesh: jax.sharding.Mesh | None) -> Tree:
    """Returns the tree that `spec` describes, each array made of its shards on this process's devices.

    An array without `sharding` is replicated over the mesh, or on one device where there is no mesh.

    Raises:
      ValueError: an array has a sharding and there is no mesh, or the sharding does not fit it.
    """
    return {name: _leaf(each, name, seed, mesh) for name, each in spec.items()}


def content_of(spec: ArraySpec, leaf: str, seed: str) -> Content:
    """Returns what the array at dotted path `leaf` holds."""
    return Content(seed, leaf, spec.shape, dtype_of(spec))


def dtype_of(spec: ArraySpec) -> np.dtype:
    """Returns the dtype of a jax.numpy name. Raises ValueError for a name that is none."""
    try:
        dtype: np.dtype = jnp.dtype(getattr(jnp, spec.dtype))
    except (AttributeError, TypeError) as error:
        raise ValueError(f"{spec.dtype} is not a dtype of jax.numpy") from error
    return dtype


def leaves(spec: TreeSpec, prefix: str = "") -> Iterator[tuple[str, ArraySpec | str]]:
    """Yields the dotted path and spec of every leaf, in order."""
    for name, each in spec.items():
        if isinstance(each, ArraySpec | str):
            yield prefix + name, each
        else:
            yield from leaves(each, f"{prefix}{name}.")


def _leaf(spec: Any, path: str, seed: str, mesh: jax.sharding.Mesh | None) -> Any:
    if isinstance(spec, str):
        return SCALARS[spec]
    if isinstance(spec, ArraySpec):
        return _array(spec, path, seed, mesh)
    return {name: _leaf(each, f"{path}.{name}", seed, mesh) for name, each in spec.items()}


def _array(spec: ArraySpec, path: str, seed: str, mesh: jax.sharding.Mesh | None) -> jax.Array:
    sharding = _sharding(spec, path, mesh)
    content = content_of(spec, path, seed)
    shards: list[jax.Array] = []
    parts: list[np.ndarray] = []
    places: list[jax.Device] = []
    for index, devices in _devices_by_part(sharding, spec.shape):
        # A part is on the host once, however many devices hold it; with others only while they are small: each
        # call of JAX costs as much as to make some hundred KiB.
        part = content.part(index)
        parts += [part] * len(devices)
        places += devices
        if sum(one.nbytes for one in parts) >= _AT_ONCE_BYTES:
            shards += jax.device_put(parts, places)
            parts, places = [], []
    shards += jax.device_put(parts, places)
    return jax.make_array_from_single_device_arrays(
        spec.shape, sharding, shards, dtype=jnp.dtype(content.dtype)
    )


def _sharding(spec: ArraySpec, path: str, mesh: jax.sharding.Mesh | None) -> jax.sharding.Sharding:
    if mesh is None:
        if spec.sharding is not None:
            raise ValueError(f"array {path} has a sharding and the benchmark has no mesh")
        return jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*(spec.sharding or ())))
    try:
        sharding.shard_shape(spec.shape)
    except ValueError as error:
        raise ValueError(f"array {path}: {error}") from error
    return sharding


def _devices_by_part(
    sharding: jax.sharding.Sharding, shape: tuple[int, ...]
) -> Iterator[tuple[Index, list[jax.Device]]]:
    """Yields each distinct part of an array that this process holds, with the devices that hold it."""
    holders: dict[tuple[tuple[int, int], ...], list[jax.Device]] = {}
    for device, index in sharding.addressable_devices_indices_map(shape).items():
        holders.setdefault(bounds(index or (), shape), []).append(device)
    for part, devices in holders.items():
        yield tuple(slice(start, stop) for start, stop in part), devices


def bounds(index: Index, shape: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Returns an index as pairs of start and stop, which unlike slices can be compared and hashed."""
    return tuple(each.indices(size)[:2] for each, size in zip(index, shape, strict=True))


def load(checkpoint: CheckpointSpec) -> Tree:
    """Returns the tree of the checkpoint at `checkpoint.path`, as nested dicts.

    Arrays are sharded as the JSON at `sharding_config_path` says, otherwise as widely as Orbax can.

    Raises:
      ValueError: there is no checkpoint, or the sharding config does not describe it.
    """
    import orbax.checkpoint as ocp
    from etils import epath

    path = epath.Path(checkpoint.path)
    use_ocdbt = bool(ocp.type_handlers.is_ocdbt_checkpoint(path))
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(use_ocdbt=use_ocdbt)) as checkpointer:
        metadata = checkpointer.metadata(path).item_metadata
        if metadata is None:
            raise ValueError(f"there is no Orbax checkpoint of a tree at {path}")
        if checkpoint.sharding_config_path is None:
            abstract = as_wide_as_possible(metadata.tree)
        else:
            abstract = by_config(epath.Path(checkpoint.sharding_config_path).read_text(), metadata)
        arguments = ocp.args.PyTreeRestore(restore_args=ocp.checkpoint_utils.construct_restore_args(abstract))
        restored = checkpointer.restore(path, args=arguments)
    return ocp.tree.serialize_tree(restored, keep_empty_nodes=True)


def as_wide_as_possible(metadata: Tree) -> Tree:
    """Returns the arrays of a checkpoint's metadata, each spread over as many devices as it can be."""
    import orbax.checkpoint as ocp

    abstract = jax.tree.map(ocp.arrays.to_shape_dtype_struct, metadata)
    shardings = ocp.arrays.construct_maximal_shardings(abstract)
    return jax.tree.map(
        lambda leaf, sharding: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding),
        abstract,
        shardings,
    )


def by_config(text: str, metadata: Tree, devices: Sequence[jax.Device] | None = None) -> Tree:
    """Returns the arrays of a checkpoint's metadata as a JSON text lays them over `devices`, all by default."""
    import orbax.checkpoint as ocp

    flat = {}
    for name, entry in json.loads(text).items():
        layout = entry["sharding"]["mesh"]
        places = np.array(jax.devices() if devices is None else devices)
        mesh = jax.sharding.Mesh(places.reshape(layout["shape"]), layout["axes"])
        spec = [tuple(each) if isinstance(each, list) else each for each in entry["sharding"]["spec"]]
        flat[name] = jax.ShapeDtypeStruct(
            tuple(entry["shape"]),
            jnp.dtype(entry["dtype"]),
            sharding=jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*spec)),
        )
    return ocp.tree.from_flat_dict(flat, metadata, sep=".")


def abstract(tree: Tree) -> Tree:
    """Returns the tree with each array replaced by its shape, dtype and sharding; scalars stay."""
    return jax.tree.map(
        lambda leaf: (
            jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding)
            if isinstance(leaf, jax.Array)
            else leaf
        ),
        tree,
    )


def free(tree: Tree) -> None:
    """Gives the arrays' memory back at once. They cannot be used afterwards."""
    for leaf in jax.tree.leaves(tree):
        if isinstance(leaf, jax.Array) and not leaf.is_deleted():
            leaf.delete()


def abstract_of(spec: TreeSpec, mesh: jax.sharding.Mesh | None, prefix: str = "") -> Tree:
    """Returns what `generate` would make, each array as its shape, dtype and sharding. Raises what `generate` does."""
    made: dict[str, Any] = {}
    for name, each in spec.items():
        path = prefix + name
        if isinstance(each, str):
            made[name] = SCALARS[each]
        elif isinstance(each, ArraySpec):
            sharding = _sharding(each, path, mesh)
            made[name] = jax.ShapeDtypeStruct(each.shape, dtype_of(each), sharding=sharding)
        else:
            made[name] = abstract_of(each, mesh, f"{path}.")
    return made


def saved_bytes(tree: Tree) -> int:
    """Returns the bytes that this worker saves: of every part of every array, the first copy."""
    return sum(shard.data.nbytes for _, shard in _held(tree) if shard.replica_id == 0)


def held_bytes(tree: Tree) -> int:
    """Returns the bytes that this worker restores: its parts of all arrays, abstract ones too, each part once."""
    return sum(
        math.prod(each.stop - each.start for each in index) * leaf.dtype.itemsize
        for leaf in jax.tree.leaves(tree)
        if isinstance(leaf, jax.Array | jax.ShapeDtypeStruct) and leaf.sharding is not None
        for index, _ in _devices_by_part(leaf.sharding, leaf.shape)
    )


def _held(tree: Tree) -> Iterator[tuple[jax.Array, Any]]:
    for leaf in jax.tree.leaves(tree):
        if isinstance(leaf, jax.Array):
            for shard in leaf.addressable_shards:
                yield leaf, shard
