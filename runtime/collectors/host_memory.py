"""The highest resident memory of this process during a block, and how far above its start that is."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Protocol

from runtime.collectors.own_reads import OwnReads
from runtime.collectors.sampler import Sampler, Watch
from runtime.measure import Collector, Operation, Probe, Value

_RESET_PEAK = b"5"
_PAGE = os.sysconf("SC_PAGE_SIZE")


class PeakSource(Protocol):
    """A way to learn a peak; `prefix` goes before the metrics' names, as the way is part of the meaning."""

    prefix: str

    def begin(self) -> Watch:
        """Starts a watch whose peak is, for now, the resident size in bytes."""

    def end(self, watch: Watch) -> None:
        """Brings the watch's peak up to date for the last time."""


class KernelPeak:
    """The kernel's own high-water mark (VmHWM), set back at the start of each block: exact, no thread.

    Setting it back for an inner block would lose what an outer one has reached, so every open watch sees it
    first.
    """

    prefix = ""

    def __init__(self, own: OwnReads) -> None:
        self._own = own
        self._status = own.open("/proc/self/status")
        self._reset = os.open("/proc/self/clear_refs", os.O_WRONLY | os.O_CLOEXEC)
        self._watches: list[Watch] = []
        self._set_back()

    def begin(self) -> Watch:
        """Sets the mark back to the resident size, which is where the new watch begins."""
        self._show(self._mark())
        self._set_back()
        watch = Watch(self._mark())
        self._watches.append(watch)
        return watch

    def end(self, watch: Watch) -> None:
        """Reads the mark."""
        self._show(self._mark())
        self._watches.remove(watch)

    def _show(self, mark: int) -> None:
        for watch in self._watches:
            watch.see(mark)

    def _mark(self) -> int:
        found = re.search(rb"VmHWM:\s*(\d+) kB", self._own.read(self._status))
        if found is None:
            raise OSError("/proc/self/status has no VmHWM")
        return int(found[1]) * 1024

    def _set_back(self) -> None:
        os.pwrite(self._reset, _RESET_PEAK, 0)


class SampledPeak:
    """Resident size looked at every few milliseconds, for kernels that do not let the mark be set back."""

    prefix = "sampled_"

    def __init__(self, own: OwnReads) -> None:
        statm = own.open("/proc/self/statm")
        sampler = Sampler(lambda: int(own.read(statm).split()[1]) * _PAGE)
        self.begin, self.end = sampler.begin, sampler.end


def peak_source(own: OwnReads) -> PeakSource:
    """Returns the exact source, or the sampled one where there is none (gVisor, hardened containers)."""
    try:
        return KernelPeak(own)
    except OSError:
        return SampledPeak(own)


class HostMemory(Collector):
    """Resident memory at the start of a block, and its peak."""

    def __init__(self, source: PeakSource) -> None:
        self._source = source

    def start(self, operation: Operation) -> Probe:
        """Begins to watch the peak."""
        return _MemoryProbe(self._source)


class _MemoryProbe:
    def __init__(self, source: PeakSource) -> None:
        self._source = source
        self._watch = source.begin()
        self._first = self._watch.peak

    def stop(self) -> None:
        self._source.end(self._watch)

    def values(self) -> Iterator[Value]:
        peak, prefix = self._watch.peak, self._source.prefix
        yield Value("rss_start_bytes", self._first, "bytes")
        yield Value(f"{prefix}peak_rss_bytes", peak, "bytes")
        yield Value(f"{prefix}peak_rss_over_start_bytes", peak - self._first, "bytes")
