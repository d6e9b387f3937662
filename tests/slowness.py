"""How much slower this machine is just now than the one that limits on time are meant for."""

from __future__ import annotations

import time
from collections.abc import Callable

_LOOP_S = 0.28
"""What the loop takes there, seconds."""


def slowness(clock: Callable[[], float] = time.process_time) -> float:
    """Returns by how many times; 1 where it is not slower.

    By `time.process_time` it is the processor that counts, for limits on its time; by `time.perf_counter` the wait for
    it as well, for limits on how long something takes.
    """
    begin = clock()
    total = 0
    for number in range(5_000_000):
        total += number
    return max(1.0, (clock() - begin) / _LOOP_S)
