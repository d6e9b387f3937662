"""How long a call to a service is tried, and how long is waited between the tries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """Seconds: one try of a call, all tries of a call, the first and the longest pause between tries."""

    try_s: float = 30.0
    total_s: float = 180.0
    first_pause_s: float = 0.5
    longest_pause_s: float = 15.0


def pauses(timing: Timing) -> Iterator[float | None]:
    """Yields how long to wait after each try of a call that is repeated by hand, seconds; None after the last."""
    for pause in even_pauses(timing):
        yield None if pause is None else uneven(pause)


def even_pauses(timing: Timing) -> Iterator[float | None]:
    """Yields the same for who makes them uneven: no two callers shall come back at once."""
    spent, pause = 0.0, timing.first_pause_s
    while spent < timing.total_s / 2:  # the other half is for the tries themselves
        yield pause
        spent += pause
        pause = min(2 * pause, timing.longest_pause_s)
    yield None


def uneven(pause: float) -> float:
    """Returns about as long a pause."""
    import random

    return pause * random.uniform(0.5, 1.0)
