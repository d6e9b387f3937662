"""Processors, memory and noise, by a clock that is known: the speeds are what the clock says they are."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.limits import host

MIB = 1 << 20


def ticks(*steps: float) -> Iterator[float]:
    """Times as a clock tells them that runs on by these steps, over and over."""
    return itertools.accumulate(itertools.cycle(steps), initial=0.0)


def test_every_block_takes_the_same() -> None:
    clock = ticks(0.002, 0.0)
    limit, noise = host.cpu_and_noise(60, lambda: next(clock))
    assert limit.values == pytest.approx([MIB / 0.002] * 3)
    assert (noise.blocks, noise.median_s) == (60, pytest.approx(0.002))
    assert noise.spread == pytest.approx(0.0)


def test_noise_is_where_nine_of_ten_blocks_lie() -> None:
    steps = [0.5]  # the first block is none of them
    steps += [0.0, *itertools.chain.from_iterable((0.001 * n, 0.0) for n in range(51, 151))]
    clock = ticks(*steps)
    _, noise = host.cpu_and_noise(100, lambda: next(clock))
    assert noise.median_s == pytest.approx(0.101)
    assert (noise.low_s, noise.high_s, noise.slowest_s) == pytest.approx((0.056, 0.145, 0.150))
    assert noise.spread == pytest.approx((0.145 - 0.056) / 2 / 0.101)


def test_a_copy_is_as_large_as_memory_allows() -> None:
    clock = ticks(0.25, 0.0)
    limit = host.memory_copy(16 * 8 * MIB, lambda: next(clock))
    assert limit.values == pytest.approx([limit.size_bytes / 0.25] * 3)
    assert 8 * MIB - 8 < limit.size_bytes <= 8 * MIB
    assert host.memory_copy(100 * MIB).skipped == "only 100 MiB of memory are free"


def test_what_the_kernel_does_not_say_is_nothing(tmp_path: Path) -> None:
    table = tmp_path / "meminfo"
    assert host.free_memory(table) == 0
    table.write_text("MemTotal: 9 kB\nMemAvailable:   3 kB\n")
    assert host.free_memory(table) == 3 * 1024
