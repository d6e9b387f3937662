"""How long a call to a service is tried, and how long is waited between the tries."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """Seconds: one try of a call, all tries of a call, the first and the longest pause between tries."""

    try_s: float = 30.0
    total_s: float = 180.0
    first_pause_s: float = 0.5
    longest_pause_s: float = 15.0


def pauses(timing: Timing) -> Sequence[float | None]:
    """Returns how long to wait after each try of a call that is repeated by hand, seconds; None after the last."""
    waits: list[float | None] = []
    spent, pause = 0.0, timing.first_pause_s
    while spent < timing.total_s / 2:  # the other half is for the tries themselves
        waits.append(pause * random.uniform(0.5, 1.0))
        spent += pause
        pause = min(2 * pause, timing.longest_pause_s)
    return (*waits, None)
