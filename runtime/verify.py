"""Proof that what was restored is what was saved, bit for bit; the first difference is named."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import jax
import numpy as np

from runtime import pytree
from runtime.content import Content, Index
from runtime.contract.errors import WorkloadFailed
from runtime.contract.suite import TreeSpec


class NotEqual(WorkloadFailed):
    """A restored tree differs from the saved one."""


class ExpectedData(Protocol):
    """What the elements of one array must be."""

    def difference(self, index: Index, actual: np.ndarray) -> str | None:
        """Says how the part of the array at `index` differs from what was saved; None when it does not."""


@dataclass(frozen=True)
class Computed:
    """Generated data: computed again part by part, so that no second copy of a tree need be kept."""

    content: Content

    def difference(self, index: Index, actual: np.ndarray) -> str | None:
        expected = self.content.part(index)
        return _first_difference(index, expected, actual)


@dataclass(frozen=True)
class Digested:
    """Data that cannot be computed again: a digest of every part was kept when it was saved."""

    digests: Mapping[tuple[tuple[int, int], ...], bytes]

    def difference(self, index: Index, actual: np.ndarray) -> str | None:
        known = self.digests.get(tuple((each.start, each.stop) for each in index))
        if known is None:
            return f"part {_brackets(index)} was not on this worker when it was saved"
        return None if known == _digest(actual) else f"part {_brackets(index)} differs"


@dataclass(frozen=True)
class Leaf:
    """One leaf of a saved tree: for an array what it looked like and held, for a scalar its value."""

    value: Any = None
    array: jax.ShapeDtypeStruct | None = None
    data: ExpectedData | None = None


Expectation = Mapping[str, Leaf]
"""What a restored tree must be: leaf by dotted path."""


def expect(tree: pytree.Tree, spec: TreeSpec | None, seed: str) -> Expectation:
    """Returns what a restore of `tree` must give; without the `spec` it was made from, digests it now.

    With the spec, `tree` may be abstract.
    """
    specs = dict(pytree.leaves(spec)) if spec is not None else {}
    expectation: dict[str, Leaf] = {}
    for path, leaf in _by_path(tree).items():
        if not isinstance(leaf, jax.Array | jax.ShapeDtypeStruct):
            expectation[path] = Leaf(value=leaf)
            continue
        array = jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding)
        known = specs.get(path)
        data: ExpectedData | None = None
        if known is not None and not isinstance(known, str):
            data = Computed(pytree.content_of(known, path, seed))
        elif isinstance(leaf, jax.Array):
            data = _digested(leaf)
        expectation[path] = Leaf(array=array, data=data)
    return expectation


def check(expected: Expectation, restored: pytree.Tree, *, same_sharding: bool = True) -> None:
    """Compares every shard that this process holds.

    Args:
      same_sharding: also demand the sharding that was saved; False where a benchmark restores to another one.

    Raises:
      NotEqual: naming the first leaf that differs, and the place in it.
    """
    found = _by_path(restored)
    missing, extra = expected.keys() - found.keys(), found.keys() - expected.keys()
    if missing or extra:
        names = ", ".join(sorted(missing or extra))
        raise NotEqual(f"the restored tree {'lacks' if missing else 'has, beyond what was saved,'} {names}")
    for path, leaf in expected.items():
        reason = _leaf_difference(leaf, found[path], same_sharding)
        if reason is not None:
            raise NotEqual(f"restored leaf {path} is not what was saved: {reason}")


def _leaf_difference(expected: Leaf, actual: Any, same_sharding: bool) -> str | None:
    if expected.array is None:
        return _scalar_difference(expected.value, actual)
    if not isinstance(actual, jax.Array):
        return f"a {type(actual).__name__} came back for an array"
    if actual.shape != expected.array.shape:
        return f"shape {actual.shape} came back for {expected.array.shape}"
    if actual.dtype != expected.array.dtype:
        return f"dtype {actual.dtype} came back for {expected.array.dtype}"
    saved = expected.array.sharding
    if same_sharding and saved is not None and not actual.sharding.is_equivalent_to(saved, actual.ndim):
        return f"sharding {actual.sharding} came back for {saved}"
    return _data_difference(expected.data, actual)


def _scalar_difference(expected: Any, actual: Any) -> str | None:
    # Orbax may give a number back as a numpy scalar or a 0-d array: the value counts.
    value = actual.item() if hasattr(actual, "item") else actual
    if value != expected or isinstance(value, str) != isinstance(expected, str):
        return f"{actual!r} came back for {expected!r}"
    return None


def _data_difference(expected: ExpectedData | None, actual: jax.Array) -> str | None:
    if expected is None:
        return None
    parts: dict[tuple[tuple[int, int], ...], list[Any]] = {}
    for shard in actual.addressable_shards:
        parts.setdefault(pytree.bounds(shard.index, actual.shape), []).append(shard)
    for part, shards in parts.items():
        index = tuple(slice(start, stop) for start, stop in part)
        first = np.asarray(shards[0].data)
        reason = expected.difference(index, first)
        if reason is not None:
            return f"{reason} (device {shards[0].device})"
        for other in shards[1:]:
            copy = np.asarray(other.data)
            if not _same_bytes(first, copy):
                reason = _first_difference(index, first, copy)
                return f"{reason} (device {other.device} against {shards[0].device})"
    return None


def _first_difference(index: Index, expected: np.ndarray, actual: np.ndarray) -> str | None:
    """Compares by bytes, so that NaN equals the same NaN and 0.0 is not -0.0."""
    if _same_bytes(expected, actual):
        return None
    per_element = _bytes(expected) != _bytes(actual)
    flat = int(np.argmax(per_element.reshape(expected.size, -1).any(axis=1)))
    local = np.unravel_index(flat, expected.shape)
    place = ", ".join(str(int(i) + each.start) for i, each in zip(local, index, strict=True))
    wrong = int(per_element.reshape(expected.size, -1).any(axis=1).sum())
    return (
        f"element [{place}] is {actual[local]} and was {expected[local]};"
        f" {wrong} of {expected.size} elements differ in part {_brackets(index)}"
    )


def _same_bytes(one: np.ndarray, other: np.ndarray) -> bool:
    return bool(np.array_equal(_bytes(one), _bytes(other)))


def _bytes(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _digested(array: jax.Array) -> Digested:
    digests = {}
    for shard in array.addressable_shards:
        part = pytree.bounds(shard.index, array.shape)
        if part not in digests:
            digests[part] = _digest(np.asarray(shard.data))
    return Digested(digests)


def _digest(array: np.ndarray) -> bytes:
    return hashlib.blake2b(_bytes(array).data, digest_size=16).digest()


def _brackets(index: Index) -> str:
    return f"[{', '.join(f'{each.start}:{each.stop}' for each in index)}]"


def _by_path(tree: pytree.Tree) -> dict[str, Any]:
    paths, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {".".join(_key_name(key) for key in path): leaf for path, leaf in paths}


def _key_name(key: Any) -> str:
    for attribute in ("key", "name", "idx"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    return str(key)
