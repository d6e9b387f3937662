"""The numbers a generated array holds: a function of seed, leaf and position, made for any part alone."""

from __future__ import annotations

import functools
import hashlib
import itertools
import math
from collections.abc import Sequence

import ml_dtypes
import numpy as np

Index = tuple[slice, ...]
"""Part of an array as JAX's shardings give it: one slice without step per axis, `None` where it is open."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_CHUNK = 1 << 16
"""Elements computed at once: their eight-byte words stay in a core's cache, and memory stays bounded."""


class Content:
    """The elements of one array of `shape` and `dtype`.

    Floats and integers are uniform in ±product(shape), as wide as the normal distribution that Orbax's own
    generator draws from, so that they compress alike. The same element has the same value whatever the
    sharding, the number of processes or the order of calls.
    """

    def __init__(self, seed: str, leaf: str, shape: Sequence[int], dtype: np.dtype) -> None:
        """`seed` and `leaf` select the stream; nothing is computed yet."""
        digest = hashlib.blake2b(f"{seed}\0{leaf}".encode(), digest_size=8).digest()
        self._key = np.uint64(int.from_bytes(digest, "little"))
        self.shape = tuple(shape)
        self.dtype = np.dtype(dtype)

    def part(self, index: Index) -> np.ndarray:
        """Returns the elements that `index` selects, as an array of its own."""
        ranges = [each.indices(size)[:2] for each, size in zip(index, self.shape, strict=True)]
        sizes = [max(stop - start, 0) for start, stop in ranges]
        out = np.empty(sizes, self.dtype)
        if out.size == 0:
            return out
        strides = [math.prod(self.shape[axis + 1 :]) for axis in range(len(self.shape))]
        base = sum(start * stride for (start, _), stride in zip(ranges, strides, strict=True))
        axis = _axis_to_cut(sizes)
        if axis is None:
            positions = np.asarray(_positions(tuple(sizes), tuple(strides)) + np.uint64(base))
            out[...] = self._elements(positions)
            return out
        step = max(1, _CHUNK // math.prod(sizes[axis + 1 :]))
        inner = _positions((min(step, sizes[axis]), *sizes[axis + 1 :]), tuple(strides[axis:]))
        for lead in itertools.product(*map(range, sizes[:axis])):
            before = base + sum(i * stride for i, stride in zip(lead, strides, strict=False))
            for begin in range(0, sizes[axis], step):
                place = out[lead][begin : begin + step]
                offset = np.uint64(before + begin * strides[axis])
                place[...] = self._elements(inner[: len(place)] + offset)
        return out

    def _elements(self, position: np.ndarray) -> np.ndarray:
        """Returns the elements at flat positions (uint64, overwritten)."""
        words = _mix(position, self._key)
        kind = self.dtype.kind
        if self.dtype == np.bool_:
            return (words & np.uint64(1)).astype(np.bool_)
        if kind == "c":
            real = self._scaled(words.copy())
            return (real + 1j * self._scaled(_mix(words, self._key))).astype(self.dtype)
        return self._scaled(words).astype(self.dtype)

    def _scaled(self, words: np.ndarray) -> np.ndarray:
        """Returns words (uint64) as float64 spread over the range of values."""
        spread = float(math.prod(self.shape))
        kind = self.dtype.kind
        if kind == "c":
            return words.view(np.int64) * (spread / 2.0**63)
        if kind in "iu" or self.dtype in _SMALL_INTEGERS:
            limits = ml_dtypes.iinfo(self.dtype)
            low, high = max(-spread, float(limits.min)), min(spread, float(limits.max))
            return np.floor(words * ((high - low) / 2.0**64) + low)
        largest = float(ml_dtypes.finfo(self.dtype).max)
        return words.view(np.int64) * (min(spread, largest / 2) / 2.0**63)


_SMALL_INTEGERS = tuple(np.dtype(getattr(ml_dtypes, name)) for name in ("int2", "int4", "uint2", "uint4"))


def _axis_to_cut(sizes: Sequence[int]) -> int | None:
    """Returns the first axis below which everything fits into one chunk; None when all does."""
    if math.prod(sizes) <= _CHUNK:
        return None
    return next(axis for axis in range(len(sizes)) if math.prod(sizes[axis + 1 :]) <= _CHUNK)


@functools.lru_cache(maxsize=8)
def _positions(sizes: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray:
    """Returns the flat position of every element of a block at the origin, of shape `sizes`, as uint64, to be read.

    Parts of one array differ in where they begin only, and none has more elements than a chunk.
    """
    total = np.zeros((1,) * len(sizes), np.uint64)
    for axis, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
        along = np.arange(size, dtype=np.uint64) * np.uint64(stride)
        total = total + along.reshape([-1 if other == axis else 1 for other in range(len(sizes))])
    total.flags.writeable = False
    return total


def _mix(words: np.ndarray, key: np.uint64) -> np.ndarray:
    """Returns a 64-bit hash (SplitMix64) of each word, in place."""
    words *= _GOLDEN
    words += key
    words ^= words >> np.uint64(30)
    words *= _MIX_1
    words ^= words >> np.uint64(27)
    words *= _MIX_2
    words ^= words >> np.uint64(31)
    return words
