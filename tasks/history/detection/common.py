"""What many series are off by alike: a shift that most of them show, and how large it is. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FEWEST = 8
"""Series from which on something can be called common."""

SURE = 5.0
"""Standard errors from which on it is more than chance, over all nights of years."""

STAYS = 2.5
"""The same where the night before was off to that side already."""

_MOST_ALIKE = 0.75
"""The share of series that must have moved to the same side."""

_APART = 3.0
"""Standard deviations from the others at which a series shows something of its own as well."""


@dataclass(frozen=True)
class Shift:
    """`size`: of logarithms, positive where values grew; `error` its standard error. `alike` of `series` moved so."""

    size: float
    error: float
    alike: int
    series: int


def common_shift(off: Sequence[float], scales: Sequence[float], sure: float = SURE) -> Shift | None:
    """Returns what series were off by alike; None where nothing is common.

    `off`: each series' distance from where it is expected in one night, of logarithms; `scales`: what each scatters
    by, as standard deviations; `sure`: how many standard errors it takes.
    """
    if len(off) < FEWEST:
        return None
    shift = middle(off, scales)
    if abs(shift.size) < sure * shift.error or shift.alike < _MOST_ALIKE * shift.series:
        return None
    return shift


def middle(off: Sequence[float], scales: Sequence[float]) -> Shift:
    """Returns what most series are off by, however little that is: the mean of those that are near their median."""
    distances, sigma = np.asarray(off, dtype=np.float64), np.asarray(scales, dtype=np.float64)
    median = _weighted_median(distances, 1 / sigma)
    # The series' own scatter around it counts where it is larger than they are known to have: series that change by
    # themselves are no proof of something common.
    around = max(1.0, 1.4826 * float(np.median(np.abs(distances - median) / sigma)))
    near = np.abs(distances - median) <= _APART * around * sigma
    weights = 1 / sigma[near] ** 2
    size = float((distances[near] * weights).sum() / weights.sum())
    # The weighted median, by which is told who is near, scatters by sqrt(pi/2) of what the mean does.
    error = math.sqrt(math.pi / 2) * around / math.sqrt(float(weights.sum()))
    alike = int((np.sign(distances) == math.copysign(1, size)).sum())
    return Shift(size, error, alike, len(distances))


def _weighted_median(values: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    order = np.argsort(values)
    reached = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(reached, reached[-1] / 2)])
