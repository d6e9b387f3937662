"""How fast this worker's devices take data from its host and give it back: all of them at once, as in a save."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from runtime.contract.limits import DEVICE_TO_HOST, HOST_TO_DEVICE, Limit

PASSES = 3
_LARGEST = 64 << 20
_SMALLEST = 1 << 20


def transfers(free: int, meet: Callable[[], None]) -> dict[str, Limit]:
    """Returns the limits both ways; `free` is how much memory of the host nobody uses. JAX must have been initialised.

    `meet`: as in disk.py.
    """
    meet()
    names = (HOST_TO_DEVICE, DEVICE_TO_HOST)
    try:
        return dict(zip(names, _measured(free), strict=True))
    except (RuntimeError, MemoryError, ValueError) as error:
        why = " ".join(str(error).split())[:200]
        return {name: Limit(skipped=f"it failed: {why}") for name in names}


def _measured(free: int) -> tuple[Limit, Limit]:
    import jax

    devices = jax.local_devices()
    if devices[0].platform == "cpu":
        none = Limit(skipped="the devices have the host's own memory")
        return none, none
    size = min(_LARGEST, free // (16 * len(devices)), *(_free_on(device) // 8 for device in devices))
    if size < _SMALLEST:
        none = Limit(skipped="too little memory is free on host or devices")
        return none, none
    to_device, to_host = [], []
    parts = [np.random.default_rng(n).integers(0, 255, size, np.uint8) for n in range(len(devices))]
    total = size * len(devices)
    for number in range(PASSES + 1):
        begin = time.perf_counter()
        arrays = jax.block_until_ready(jax.device_put(parts, devices))
        there = time.perf_counter()
        jax.device_get(arrays)
        back = time.perf_counter()
        for array in arrays:
            array.delete()
        if number:  # the first one prepares buffers
            to_device.append(total / (there - begin))
            to_host.append(total / (back - there))
    how = f"{len(devices)} device{'s' * (len(devices) > 1)} at once"
    return (
        Limit(values=tuple(to_device), how=how, size_bytes=total),
        Limit(values=tuple(to_host), how=how, size_bytes=total),
    )


def _free_on(device: Any) -> int:
    told = device.memory_stats() or {}
    limit = told.get("bytes_limit")
    return _LARGEST * 8 if limit is None else max(0, int(limit) - int(told.get("bytes_in_use", 0)))
