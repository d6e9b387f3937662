"""How many JAX arrays came or went over a block, and their bytes on this worker's devices: shows leaks."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any

from runtime.collectors.differences import Differences
from runtime.measure import Collector, Value


def live_arrays() -> Collector:
    """Returns the collector; what garbage collection has not reached yet counts as alive."""
    return Differences(_alive, _changed)


def _alive() -> tuple[int, int]:
    import jax

    arrays: list[Any] = jax.live_arrays()
    return len(arrays), sum(_local_bytes(each.sharding, each.shape, each.dtype.itemsize) for each in arrays)


@functools.lru_cache(maxsize=256)
def _local_bytes(sharding: Any, shape: tuple[int, ...], itemsize: int) -> int:
    """Returns the bytes of an array's shards in this process, by arithmetic only: no shard is touched."""
    return int(math.prod(sharding.shard_shape(shape)) * itemsize * len(sharding.addressable_devices))


def _changed(before: tuple[int, int], after: tuple[int, int]) -> Iterator[Value]:
    yield Value("live_arrays_change", after[0] - before[0], "count")
    yield Value("live_arrays_bytes_change", after[1] - before[1], "bytes")
