"""How fast this host's processors and memory are, and how much a block of fixed work differs each time."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from runtime.contract.limits import Limit, Noise

BLOCKS = 150
"""Blocks of fixed work: enough to tell where nine of ten lie."""

PASSES = 3
_BLOCK_BYTES = 1 << 20
_LARGEST_COPY = 64 << 20
"""Read and written once, larger than most caches; to get such memory takes longer than to copy it."""

_SMALLEST_COPY = 8 << 20
_MOST_THREADS = 8

Clock = Callable[[], float]


def cpu_and_noise(blocks: int = BLOCKS, clock: Clock = time.perf_counter) -> tuple[Limit, Noise]:
    """Hashes the same mebibyte over and over on one core: the speed of all blocks, and how much they differ."""
    block = bytes(_BLOCK_BYTES)
    seconds = []
    for _ in range(blocks + 1):
        begin = clock()
        hashlib.blake2b(block).digest()
        seconds.append(clock() - begin)
    ordered = sorted(seconds[1:])  # the first has the code and the block to fetch
    noise = Noise(
        blocks=blocks,
        median_s=ordered[blocks // 2],
        low_s=ordered[blocks // 20],
        high_s=ordered[-1 - blocks // 20],
        slowest_s=ordered[-1],
    )
    passes = [sum(seconds[1 + n : blocks + 1 : PASSES]) for n in range(PASSES)]
    counts = [len(seconds[1 + n : blocks + 1 : PASSES]) for n in range(PASSES)]
    speeds = tuple(_BLOCK_BYTES * count / took for count, took in zip(counts, passes, strict=True))
    return Limit(values=speeds, how="BLAKE2b", size_bytes=_BLOCK_BYTES * counts[0]), noise


def memory_copy(free: int, clock: Clock = time.perf_counter) -> Limit:
    """Copies a buffer with all cores; `free` is how much memory nobody uses."""
    size = min(_LARGEST_COPY, free // 16)
    if size < _SMALLEST_COPY:
        return Limit(skipped=f"only {free >> 20} MiB of memory are free")
    threads = min(_MOST_THREADS, len(os.sched_getaffinity(0)))
    part = size // threads
    source, target = np.ones(part * threads, np.uint8), np.zeros(part * threads, np.uint8)
    target[:] = source  # its pages come now, and are no part of copying
    places = [slice(n * part, (n + 1) * part) for n in range(threads)]

    def copy(place: slice) -> None:
        np.copyto(target[place], source[place])

    speeds = []
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(PASSES):
            begin = clock()
            list(pool.map(copy, places))
            speeds.append(part * threads / (clock() - begin))
    return Limit(values=tuple(speeds), how=f"{threads} threads", size_bytes=part * threads)


def free_memory(table: Path = Path("/proc/meminfo")) -> int:
    """Returns the bytes that could be had without pushing anything out; 0 when the kernel does not say."""
    try:
        lines = table.read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError, IndexError):
        return 0
