"""The most memory in use on one of this worker's accelerators during a block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from runtime.collectors.sampler import Sampler
from runtime.measure import Collector, Operation, Probe, Value


def device_memory(devices: Sequence[Any]) -> Collector | None:
    """Returns the collector for these local devices; None where the backend counts no memory, as on CPU."""
    return DeviceMemory(devices) if any(device.memory_stats() for device in devices) else None


class DeviceMemory(Collector):
    """Watches the fullest local device.

    A backend's own peak never goes down. When it rose during a block it is that block's peak, exactly; else
    the highest sample taken meanwhile is.
    """

    def __init__(self, devices: Sequence[Any]) -> None:
        self._devices = devices
        self.sampler = Sampler(lambda: self._fullest("bytes_in_use"))

    def start(self, operation: Operation) -> Probe:
        """Begins to sample."""
        return _DeviceProbe(self)

    def lifetime_peak(self) -> int:
        """Returns the most bytes that were ever in use on one local device."""
        return self._fullest("peak_bytes_in_use")

    def _fullest(self, figure: str) -> int:
        return max(int((device.memory_stats() or {}).get(figure, 0)) for device in self._devices)


class _DeviceProbe:
    def __init__(self, source: DeviceMemory) -> None:
        self._source = source
        self._lifetime = source.lifetime_peak()
        self._watch = source.sampler.begin()
        self._first = self._watch.peak

    def stop(self) -> None:
        self._source.sampler.end(self._watch)
        lifetime = self._source.lifetime_peak()
        if lifetime > self._lifetime:
            self._watch.see(lifetime)

    def values(self) -> Iterator[Value]:
        yield Value("device_start_bytes", self._first, "bytes")
        yield Value("device_peak_bytes", self._watch.peak, "bytes")
        yield Value("device_peak_over_start_bytes", self._watch.peak - self._first, "bytes")
