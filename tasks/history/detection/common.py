"""What a whole machine was off by in one night: a shift that most of its series show alike. Pure.

A slower disk or a hotter processor makes everything slower at once. Judged one by one, that would be as many
alarms as there are series, and none of them would say what happened; so it is looked for first, told once, and
taken off each series before it is judged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

FEWEST = 8
"""Series from which on something can be called common."""

_SURE = 5.0
"""Standard errors from which on it is more than chance, over all nights of years."""

_MOST_ALIKE = 0.75
"""The share of series that must have moved to the same side."""


@dataclass(frozen=True)
class Shift:
    """`size`: of logarithms, positive where values grew. `alike` of `series` moved to the same side."""

    size: float
    alike: int
    series: int


def common_shift(off: Sequence[float], scales: Sequence[float]) -> Shift | None:
    """Returns what series were off by alike; None where nothing is common.

    `off`: each series' distance from its level in one night, of logarithms; `scales`: what each scatters by,
    as standard deviations.
    """
    if len(off) < FEWEST:
        return None
    distances, sigma = np.asarray(off), np.asarray(scales)
    size = _weighted_median(distances, 1 / sigma)
    # The weighted median scatters by sqrt(pi/2) of what the weighted mean does; the series' own scatter around it
    # counts where it is larger, for series that change by themselves are no proof of something common.
    around = 1.4826 * float(np.median(np.abs(distances - size) / sigma))
    error = math.sqrt(math.pi / 2) * max(1.0, around) / math.sqrt(float((1 / sigma**2).sum()))
    alike = int((np.sign(distances) == math.copysign(1, size)).sum())
    if abs(size) < _SURE * error or alike < _MOST_ALIKE * len(distances):
        return None
    return Shift(size, alike, len(distances))


def _weighted_median(values: np.ndarray, weights: np.ndarray) -> float:
    order = np.argsort(values)
    reached = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(reached, reached[-1] / 2)])
