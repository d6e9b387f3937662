"""How much slower this processor is just now than the one that limits on processor time are meant for."""

from __future__ import annotations

import time

_LOOP_S = 0.28
"""What the loop takes there, seconds."""


def slowness() -> float:
    """Returns by how many times; 1 where it is not slower."""
    begin = time.process_time()
    total = 0
    for number in range(5_000_000):
        total += number
    return max(1.0, (time.process_time() - begin) / _LOOP_S)
