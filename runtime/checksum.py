"""A number for each array of a tree that another content would not give, however its parts lie on the devices."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from runtime import distributed

_ODD = np.uint64(0x9E3779B97F4A7C15)
_MASK = (1 << 64) - 1
_AT_ONCE = 1 << 20
"""Elements that are summed in one go: their places take eight bytes each."""


def checksums(tree: Any) -> dict[str, int]:
    """Returns the checksum of each array by its dotted path; of other leaves nothing.

    Sums of the elements' bits by their places, which come out the same in any order: so a tree may be compared with one
    that is sharded in another way, on other devices. To be called by all workers together.
    """
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    arrays = {
        jax.tree_util.keystr(path, simple=True, separator="."): leaf
        for path, leaf in leaves
        if isinstance(leaf, jax.Array)
    }
    own = np.array([_own_sum(array) for array in arrays.values()], np.uint64)
    return dict(zip(arrays, map(int, distributed.total(own)), strict=True))


def _own_sum(array: jax.Array) -> int:
    """Returns the sum over the parts of which this worker has the first copy."""
    total = 0
    for shard in array.addressable_shards:
        if shard.replica_id == 0:
            total += _sum(np.asarray(shard.data), [each.start or 0 for each in shard.index], array.shape)
    return total & _MASK


def _sum(part: np.ndarray, begins: list[int], shape: tuple[int, ...]) -> int:
    """Returns the sum of one part of an array of this shape, whose first element is at `begins`."""
    if part.ndim == 0:
        return _sum(part.reshape(1), [0], (1,))
    rows = max(1, _AT_ONCE // max(1, part[:1].size))
    total = 0
    for first in range(0, len(part), rows):
        block = part[first : first + rows]
        place = np.zeros((), np.uint64)
        for axis, (begin, size) in enumerate(zip(begins, block.shape, strict=True)):
            own = np.arange(size, dtype=np.uint64) + np.uint64(begin + (first if axis == 0 else 0))
            place = np.add.outer(place * np.uint64(shape[axis]), own)
        bits = np.ascontiguousarray(block).view(np.uint8).reshape(*block.shape, block.dtype.itemsize)
        for byte in range(block.dtype.itemsize):
            weight = (place * np.uint64(block.dtype.itemsize) + np.uint64(byte)) * _ODD | np.uint64(1)
            total += int((bits[..., byte].astype(np.uint64) * weight).sum(dtype=np.uint64))
    return total & _MASK
