"""How long a call to a service is tried, and how long is waited between the tries."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from tasks.cloud.waits import waiting


@dataclass(frozen=True)
class Timing:
    """Seconds: one try of a call, all tries of a call, the first and the longest pause between tries."""

    try_s: float = 30.0
    total_s: float = 180.0
    first_pause_s: float = 0.5
    longest_pause_s: float = 15.0

    @property
    def longest_s(self) -> float:
        """How long a call may take, all its tries together: the last may begin just before the time is over."""
        return self.total_s + self.try_s


def pauses(timing: Timing, doing: str | None = None) -> Iterator[float | None]:
    """Yields how long to wait after each try of a call that is repeated by hand, seconds; None after the last.

    `doing`: what people are told is waited for when it takes long; None: the tries are work, each as long as it takes.
    """
    for pause in even_pauses(timing, doing):
        yield None if pause is None else uneven(pause)


def even_pauses(timing: Timing, doing: str | None = None) -> Iterator[float | None]:
    """Yields the same for who makes them uneven: no two callers shall come back at once."""
    spent, pause, until = 0.0, timing.first_pause_s, time.monotonic() + timing.total_s
    with waiting(doing or "", None if doing is None else timing.longest_s):
        # Half of the time is for the tries themselves; each may wait for its answer in vain, and take more than that.
        while spent < timing.total_s / 2 and (doing is None or time.monotonic() < until):
            yield pause
            spent += pause
            pause = min(2 * pause, timing.longest_pause_s)
        yield None


def uneven(pause: float) -> float:
    """Returns about as long a pause."""
    import random

    return pause * random.uniform(0.5, 1.0)
