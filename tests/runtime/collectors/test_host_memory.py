"""Peak memory is that of the block: a buffer freed before its end counts, one from before does not."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from contextlib import AbstractContextManager

import numpy as np
import pytest

from runtime.collectors.host_memory import HostMemory, KernelPeak, PeakSource, SampledPeak, peak_source
from runtime.collectors.own_reads import OwnReads
from runtime.measure import Collector

Measure = Callable[[Collector], AbstractContextManager[dict[str, float]]]
MIB = 1 << 20


def allocated(mib: int) -> np.ndarray:
    """Returns memory that is really there, not only promised, and that goes back when it is freed.

    Straight from the kernel: malloc would take a hole that a test before this one has left, which is there already.
    """
    memory = np.frombuffer(mmap.mmap(-1, mib * MIB), np.uint8)
    memory[:] = 1
    return memory


@pytest.fixture(params=[KernelPeak, SampledPeak])
def looking(request: pytest.FixtureRequest) -> tuple[PeakSource, OwnReads]:
    own = OwnReads()
    return request.param(own), own


def hold(own: OwnReads, source: PeakSource) -> None:
    """Waits, inside a block, until the sampler, where there is one, has looked twice more."""
    if isinstance(source, SampledPeak):
        seen = own.requests
        while own.requests < seen + 2:
            pass


def test_freed_buffer_is_in_the_peak(looking: tuple[PeakSource, OwnReads], measuring: Measure) -> None:
    source, own = looking
    with measuring(HostMemory(source)) as told:
        buffer = allocated(200)
        hold(own, source)
        del buffer
    assert told[f"{source.prefix}peak_rss_over_start_bytes"] == pytest.approx(200 * MIB, rel=0.05)
    peak, start = told[f"{source.prefix}peak_rss_bytes"], told["rss_start_bytes"]
    assert peak - start == told[f"{source.prefix}peak_rss_over_start_bytes"]


def test_earlier_peak_does_not_count(looking: tuple[PeakSource, OwnReads], measuring: Measure) -> None:
    source, own = looking
    buffer = allocated(200)
    del buffer
    with measuring(HostMemory(source)) as told:
        buffer = allocated(50)
        hold(own, source)
        del buffer
    assert told[f"{source.prefix}peak_rss_over_start_bytes"] == pytest.approx(50 * MIB, rel=0.05)


def test_outer_block_remembers_what_was_before_the_inner(
    looking: tuple[PeakSource, OwnReads], measuring: Measure
) -> None:
    source, own = looking
    memory = HostMemory(source)
    with measuring(memory) as outer:
        buffer = allocated(150)
        hold(own, source)
        del buffer
        with measuring(memory) as inner:
            buffer = allocated(40)
            hold(own, source)
            del buffer
    name = f"{source.prefix}peak_rss_over_start_bytes"
    assert outer[name] == pytest.approx(150 * MIB, rel=0.05)
    assert inner[name] == pytest.approx(40 * MIB, rel=0.05)


def test_inner_peak_is_in_the_outer_one(looking: tuple[PeakSource, OwnReads], measuring: Measure) -> None:
    source, own = looking
    memory = HostMemory(source)
    with measuring(memory) as outer, measuring(memory):
        buffer = allocated(100)
        hold(own, source)
        del buffer
    assert outer[f"{source.prefix}peak_rss_over_start_bytes"] == pytest.approx(100 * MIB, rel=0.05)


def test_memory_that_stays_counts(looking: tuple[PeakSource, OwnReads], measuring: Measure) -> None:
    source, _ = looking
    with measuring(HostMemory(source)) as told:
        buffer = allocated(100)
    assert told[f"{source.prefix}peak_rss_over_start_bytes"] == pytest.approx(buffer.nbytes, rel=0.05)


def test_exact_source_is_taken_where_the_kernel_allows() -> None:
    assert peak_source(OwnReads()).prefix == ""


def test_sampled_source_is_taken_where_the_kernel_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: KernelPeak) -> None:
        raise PermissionError("clear_refs")

    monkeypatch.setattr(KernelPeak, "_set_back", refused)
    assert peak_source(OwnReads()).prefix == "sampled_"
