"""Reads the parts of a suite that say what is saved and where it lies: meshes, checkpoints, simulated devices."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

from runtime.contract.errors import Place
from runtime.contract.findings import Findings, told
from runtime.contract.nearest import nearest
from runtime.contract.suite import ArraySpec, CheckpointSpec, MeshSpec, ScalarSpec, SimDeviceSpec, TreeSpec
from runtime.contract.yamlfile import Entry, Node

DTYPES = (
    *("bfloat16", "float16", "float32", "float64", "float_", "single", "double"),
    *("float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz"),
    *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
    *("int1", "int2", "int4", "int8", "int16", "int32", "int64", "int_"),
    *("uint1", "uint2", "uint4", "uint8", "uint16", "uint32", "uint64", "uint"),
    *("bool", "bool_", "complex64", "complex128", "complex_", "csingle", "cdouble"),
)
"""Names of jax.numpy that are dtypes."""

MESH_KEYS = (
    "mesh_axes",
    "ici_parallelism",
    "dcn_parallelism",
    "allow_split_physical_axes",
    "process_is_granule",
)
CHECKPOINT_KEYS = ("path", "spec", "random_seed", "sharding_config_path", "load_with_colocated_python")
ARRAY_KEYS = ("dtype", "shape", "sharding")
SIMDEVICE_KEYS = ("device_type", "topology", "num_processes", "fabricated_fill_seed")

Sharding = tuple[str | tuple[str, ...] | None, ...]


def read_mesh(node: Node, name: str, found: Findings) -> MeshSpec | None:
    """Returns a mesh, or None when it had to be refused."""
    entries = found.mapping(node, name, "write mesh_axes, ici_parallelism …, or leave the key out")
    if entries is None:
        return None
    found.known_keys(entries, MESH_KEYS, "a mesh")
    if "mesh_axes" not in entries:
        found.error(node.place, f"{name} has no mesh_axes", fix="write mesh_axes: [data, model]")
        return None
    axes = _axes(entries["mesh_axes"].node, found)
    if axes is None:
        return None
    ici, dcn = (_parallelism(entries.get(f"{kind}_parallelism"), axes, found) for kind in ("ici", "dcn"))
    flags = {key: found.boolean(entries[key].node, key) or False for key in MESH_KEYS[3:] if key in entries}
    return MeshSpec(axes, ici or {}, dcn, **flags)


def _axes(node: Node, found: Findings) -> tuple[str, ...] | None:
    items = found.sequence(node, "mesh_axes", "write mesh_axes: [data, model]")
    if items is None:
        return None
    axes = [found.text(item, "an axis name") for item in items]
    for index, axis in enumerate(axes):
        if axis is not None and axis in axes[:index]:
            found.error(items[index].place, f"axis {axis!r} is named twice", fix="remove one of the two")
    if not axes:
        found.error(
            node.place, "mesh_axes is empty", fix="write mesh_axes: [data, model], or leave the mesh out"
        )
    return tuple(axis for axis in axes if axis is not None) or None


def _parallelism(entry: Entry | None, axes: tuple[str, ...], found: Findings) -> Mapping[str, int] | None:
    """Sizes by axis. None when absent or null, which for dcn_parallelism means: not a hybrid mesh."""
    if entry is None or (entry.node.value is None and entry.key == "dcn_parallelism"):
        return None
    entries = found.mapping(entry.node, entry.key, "write {data: 2}")
    sizes: dict[str, int] = {}
    for axis in (entries or {}).values():
        size = found.integer(axis.node, f"{entry.key} of {axis.key!r}", least=1)
        if size is None:
            continue
        if axis.key in axes:
            sizes[axis.key] = size
            continue
        near = nearest(axis.key, axes)
        why = "Orbax drops such an axis silently"
        what = f"{entry.key} names axis {axis.key!r}, which mesh_axes lacks"
        if size == 1:
            found.warning(axis.place, what, "size 1 changes nothing", "remove it")
        else:
            fix = (
                f"did you mean {near!r}?" if near else f"add it to mesh_axes, or use one of {', '.join(axes)}"
            )
            found.error(axis.place, what, why, fix)
    return sizes


def read_checkpoint(node: Node, name: str, found: Findings) -> CheckpointSpec | None:
    """Returns a checkpoint, or None when it had to be refused."""
    entries = found.mapping(node, name, "write spec: or path: under it, or leave the key out")
    if entries is None:
        return None
    found.known_keys(entries, CHECKPOINT_KEYS, "a checkpoint")
    given = {key: entry.node for key, entry in entries.items() if entry.node.value is not None}
    path = found.text(given["path"], "path") if "path" in given else None
    sharding = "sharding_config_path"
    sharding_path = found.text(given[sharding], sharding) if sharding in given else None
    if "path" in given and "spec" in given:
        why = "a checkpoint is either made or read"
        found.error(entries["path"].place, "path and spec are both given", why, "keep one of them")
    if sharding_path is not None and "path" not in given:
        why = "it says how a checkpoint that is read is laid out"
        found.error(
            entries[sharding].place, "sharding_config_path needs path", why, "give path, or remove it"
        )
    seed_node = entries.get("random_seed")
    seed = found.integer(seed_node.node, "random_seed", 0, 2**32 - 1) if seed_node else 0
    colocated = entries.get("load_with_colocated_python")
    return CheckpointSpec(
        spec=_tree(given["spec"], "spec", found) if "spec" in given else None,
        path=path,
        random_seed=seed or 0,
        sharding_config_path=sharding_path,
        load_with_colocated_python=bool(colocated and found.boolean(colocated.node, colocated.key)),
    )


def _tree(node: Node, name: str, found: Findings) -> TreeSpec | None:
    entries = found.mapping(node, name, "write name: {dtype: float32, shape: [8, 8]}")
    if entries is None:
        return None
    tree: dict[str, ArraySpec | ScalarSpec | TreeSpec] = {}
    for entry in entries.values():
        leaf = _leaf(entry, f"{name}.{entry.key}", found)
        if leaf is not None:
            tree[entry.key] = leaf
    return tree


def _leaf(entry: Entry, name: str, found: Findings) -> ArraySpec | ScalarSpec | TreeSpec | None:
    value, fix = (
        entry.node.value,
        "write int, str, or {dtype: float32, shape: [8, 8], sharding: [data, null]}",
    )
    if isinstance(value, dict):
        own = any(key in value and not isinstance(value[key], dict) for key in ("dtype", "shape"))
        return _array(entry.node, name, found) if own else _tree(entry.node, name, found)
    if isinstance(value, str) and value in ("int", "str"):
        scalar: Literal["int", "str"] = "int" if value == "int" else "str"
        return scalar
    found.error(entry.node.place, f"{name} is {told(value)}, neither an array, a scalar nor a tree", fix=fix)
    return None


def _array(node: Node, name: str, found: Findings) -> ArraySpec | None:
    found.known_keys(node.entries, ARRAY_KEYS, "an array")
    for key in ("dtype", "shape"):
        if key not in node.entries:
            found.error(node.place, f"{name} has no {key}", fix="write {dtype: float32, shape: [8, 8]}")
    dtype_node, shape_node, sharding_node = (node.child(key) for key in ARRAY_KEYS)
    dtype = found.text(dtype_node, "dtype") if dtype_node else None
    if dtype is not None and dtype_node is not None and dtype not in DTYPES:
        near = nearest(dtype, DTYPES)
        fix = f"did you mean {near}?" if near else "write float32, bfloat16, int32 …"
        found.error(dtype_node.place, f"{dtype!r} is not a dtype of jax.numpy", fix=fix)
    sizes = found.sequence(shape_node, "shape", "write shape: [8, 8]") if shape_node else None
    shape = [found.integer(item, "a size in shape", least=1) for item in sizes or ()]
    sharding = None
    if sharding_node is not None and sharding_node.value is not None:
        sharding = _sharding(sharding_node, len(shape), found)
    if dtype is None or sizes is None or None in shape:
        return None
    return ArraySpec(dtype, tuple(size for size in shape if size is not None), sharding)


def _sharding(node: Node, dimensions: int, found: Findings) -> Sharding | None:
    items = found.sequence(node, "sharding", "write sharding: [data, null], one entry for each dimension")
    if items is None:
        return None
    if len(items) > dimensions:
        what = f"sharding has more entries than the array dimensions: {len(items)}, not {dimensions}"
        found.error(node.place, what, fix="remove the surplus entries")
    result: list[str | tuple[str, ...] | None] = []
    for item in items:
        if isinstance(item.value, list):
            names = [found.text(axis, "an axis name") for axis in item.items]
            result.append(tuple(name for name in names if name is not None))
        else:
            result.append(found.optional(item, "an axis in sharding", found.text))
    return tuple(result)


def check_shardings(
    spec: TreeSpec, node: Node, meshes: Sequence[tuple[MeshSpec, Place]], has_mesh: bool, found: Findings
) -> None:
    """Refuses shardings that the suite's meshes cannot give: no mesh, unknown axes, sizes that do not divide."""
    for name, leaf in spec.items():
        child = node.child(name)
        if child is None or leaf in ("int", "str"):
            continue
        if not isinstance(leaf, ArraySpec):
            assert isinstance(leaf, Mapping)
            check_shardings(leaf, child, meshes, has_mesh, found)
        elif leaf.sharding is not None and (where := child.child("sharding")) is not None:
            if not has_mesh:
                fix = "give mesh_config, or remove sharding"
                found.error(where.place, f"{name} is sharded, but the suite has no mesh", fix=fix)
            else:
                _check_sharding(name, leaf, where, meshes, found)


def _check_sharding(
    name: str, array: ArraySpec, where: Node, meshes: Sequence[tuple[MeshSpec, Place]], found: Findings
) -> None:
    used: set[str] = set()
    for dimension, (part, item) in enumerate(zip(array.sharding or (), where.items, strict=False)):
        axes = (part,) if isinstance(part, str) else part or ()
        for axis in axes:
            if axis in used:
                why = "an axis can split one dimension only"
                found.error(item.place, f"sharding of {name} names axis {axis!r} twice", why, "use null")
            used.add(axis)
        for mesh, mesh_place in meshes:
            lacking = [axis for axis in axes if axis not in mesh.mesh_axes]
            sizes = dict(zip(mesh.mesh_axes, mesh.sizes, strict=True))
            parts = math.prod(sizes.get(axis, 1) for axis in axes)
            if lacking:
                what = f"sharding of {name} names axis {lacking[0]!r}"
                why = f"which the mesh on line {mesh_place.line} lacks"
                found.error(item.place, what, why, fix=f"use null or one of {', '.join(mesh.mesh_axes)}")
                break
            if dimension < len(array.shape) and array.shape[dimension] % parts:
                what = f"{name}: size {array.shape[dimension]} cannot be split evenly into {parts}"
                why = f"as {' and '.join(axes)} of the mesh on line {mesh_place.line} is {parts}"
                found.error(item.place, what, why, "change the shape, the mesh or the sharding")
                break


def read_simdevice(node: Node, found: Findings) -> SimDeviceSpec | None:
    """Returns the `simdevice` block, or None when it had to be refused."""
    entries = found.mapping(node, "simdevice")
    if entries is None:
        return None
    found.known_keys(entries, SIMDEVICE_KEYS, "simdevice")
    missing = [key for key in SIMDEVICE_KEYS[:2] if key not in entries]
    for key in missing:
        found.error(
            node.place, f"simdevice has no {key}", fix="write device_type: v6e and topology: [2, 2, 1]"
        )
    if missing:
        return None
    device_type = found.text(entries["device_type"].node, "device_type")
    topology_node = entries["topology"].node
    items = found.sequence(topology_node, "topology", "write [2, 2, 1]") or ()
    chips = [
        size for item in items if (size := found.integer(item, "a size in topology", least=1)) is not None
    ]
    if len(items) != 3:
        found.error(topology_node.place, "topology must have three sizes", fix="write [2, 2, 1]")
    hosts = entries.get("num_processes")
    seed = entries.get("fabricated_fill_seed")
    read_hosts = found.integer(hosts.node, "num_processes", least=1) if hosts else 1
    read_seed = None
    if seed is not None and seed.node.value is not None:
        read_seed = found.integer(seed.node, "fabricated_fill_seed", 0, 2**32 - 1)
    if device_type is None or len(chips) != 3 or read_hosts is None:
        return None
    return SimDeviceSpec(device_type, (chips[0], chips[1], chips[2]), read_hosts, read_seed)
