"""The level of a series and how far its runs scatter around it, from the nights before those in question. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tasks.history.detection.series import Night

ENOUGH_NIGHTS = 8
"""Fewer tell nothing of how runs differ from each other."""

MOST_NIGHTS = 90
"""The latest ones that count: a quarter of a year. Older ones tell of machines and storage as they were."""

_STRAY = 4.0
"""Standard deviations from which on a night is a spike and tells nothing of the others' scatter."""

_TO_SIGMA = 1.4826
"""What makes the median absolute deviation of normal values their standard deviation."""


@dataclass(frozen=True)
class Baseline:
    """All of logarithms. `variance` is that of one run around `centre`, worth `degrees` degrees of freedom.

    `spread` is the part of it that the repeats within a run explain. `correlation` is that of a night with the
    next one as far as it is beyond chance, 0 to 1.
    """

    centre: float
    variance: float
    degrees: float
    nights: int
    spread: float
    correlation: float


def baseline_of(nights: Sequence[Night]) -> Baseline | None:
    """Returns the baseline that these nights make, latest last; None where they are too few."""
    latest = nights[-MOST_NIGHTS:]
    centres = np.array([night.settled.centre for night in latest])
    kept = _without_strays(centres)
    chosen = centres[kept]
    if len(chosen) < ENOUGH_NIGHTS:
        return None
    spreads = [
        night.settled.spread
        for night, stays in zip(latest, kept, strict=True)
        if stays and night.settled.spread
    ]
    return Baseline(
        centre=float(chosen.mean()),
        variance=max(float(chosen.var(ddof=1)), _SMALLEST),
        degrees=len(chosen) - 1.0,
        nights=len(chosen),
        spread=float(np.median(spreads)) if spreads else 0.0,
        correlation=_correlation(chosen),
    )


_SMALLEST = 1e-8
"""The variance of a series that never moved: a ten-thousandth up and down is what clocks and rounding give."""


def _without_strays(centres: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Says of each night whether it belongs to the others. Where half of them agree to the digit, all do."""
    middle = np.median(centres) if len(centres) else 0.0
    scale = _TO_SIGMA * float(np.median(np.abs(centres - middle))) if len(centres) else 0.0
    if scale == 0:
        scale = math.sqrt(_SMALLEST)
    kept: NDArray[np.bool_] = np.abs(centres - middle) <= _STRAY * scale
    return kept


def _correlation(centres: NDArray[np.float64]) -> float:
    """Returns the correlation of neighbours less what chance gives at most in one of about twenty series."""
    off = centres - centres.mean()
    total = float(off @ off)
    if total == 0:
        return 0.0
    return max(0.0, float(off[1:] @ off[:-1]) / total - 1.6 / math.sqrt(len(centres)))
