"""Memory of devices, with devices whose numbers are known; and the arrays that live on the real ones."""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import jax.numpy as jnp

from runtime.collectors.device_memory import DeviceMemory, device_memory
from runtime.collectors.live_arrays import live_arrays
from runtime.collectors.sampler import Sampler
from runtime.measure import Collector

Measure = Callable[[Collector], AbstractContextManager[dict[str, float]]]


@dataclass
class Device:
    """Counts as an accelerator's allocator does: the peak never goes down."""

    used: int = 0
    peak: int = 0
    looks: int = field(default=0)

    def use(self, amount: int) -> None:
        self.used += amount
        self.peak = max(self.peak, self.used)

    def memory_stats(self) -> dict[str, int]:
        self.looks += 1
        return {"bytes_in_use": self.used, "peak_bytes_in_use": self.peak}


def test_new_record_is_the_exact_peak(measuring: Measure) -> None:
    full, empty = Device(), Device()
    full.use(100)
    with measuring(DeviceMemory([empty, full])) as told:
        full.use(1000)
        full.use(-1000)
    assert told == {
        "device_start_bytes": 100,
        "device_peak_bytes": 1100,
        "device_peak_over_start_bytes": 1000,
    }


def test_lower_peak_after_a_higher_one_is_sampled(measuring: Measure) -> None:
    device = Device()
    device.use(5000)
    device.use(-4900)
    with measuring(DeviceMemory([device])) as told:
        device.use(700)
        looks = device.looks
        while device.looks < looks + 2:
            pass
        device.use(-700)
    assert told["device_peak_bytes"] == 800


def test_backend_that_counts_nothing_gives_no_collector() -> None:
    @dataclass
    class Silent:
        def memory_stats(self) -> None:
            return None

    assert device_memory([Silent()]) is None
    assert device_memory([Device(1)]) is not None


def test_arrays_that_stay_are_counted_with_their_bytes(measuring: Measure) -> None:
    gc.collect()
    with measuring(live_arrays()) as told:
        kept = [jnp.ones((128, 1024), jnp.float32) + index for index in range(3)]
        gc.collect()
    assert told == {"live_arrays_change": 3, "live_arrays_bytes_change": 3 * 128 * 1024 * 4}
    with measuring(live_arrays()) as told:
        kept.pop().delete()
    assert told == {"live_arrays_change": -1, "live_arrays_bytes_change": -128 * 1024 * 4}


def test_sampler_stops_with_the_last_watch() -> None:
    import threading

    sampler = Sampler(lambda: 1)
    first, second = sampler.begin(), sampler.begin()
    sampler.end(first)
    assert any(thread.name == "sampler" for thread in threading.enumerate())
    sampler.end(second)
    assert not any(thread.name == "sampler" for thread in threading.enumerate())
