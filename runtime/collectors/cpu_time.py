"""CPU seconds this process spent, over all its threads: tells a slow disk from a busy compressor."""

from __future__ import annotations

import time

from runtime.collectors.differences import Differences
from runtime.measure import Collector, Value


def cpu_time() -> Collector:
    """Returns the collector of user plus system time."""
    return Differences(time.process_time, lambda before, after: [Value("cpu_s", after - before, "s")])
