"""The level of a series and how far its runs scatter around it, from the nights before those in question. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tasks.history.detection.series import Night

ENOUGH_NIGHTS = 8
"""Fewer tell nothing of how runs differ from each other."""

_ENOUGH_DEGREES = ENOUGH_NIGHTS - 1

MOST_NIGHTS = 90
"""The latest ones that count: a quarter of a year. Older ones tell of machines and storage as they were."""

_STRAY = 4.0
"""Standard deviations from which on a night is a spike and tells nothing of the others' scatter; and how far apart
two nights in a row are of different levels."""

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


def baseline_of(nights: Sequence[Night], earlier: Sequence[Night] = ()) -> Baseline | None:
    """Returns the baseline that these nights make, latest last; None where they are too few.

    `earlier`: nights of other levels. They tell what runs scatter by while the level has few nights of its own.
    """
    latest = nights[-MOST_NIGHTS:]
    centres = _centres(latest)
    kept = _without_strays(centres)
    chosen = centres[kept]
    if len(chosen) < ENOUGH_NIGHTS:
        return _of_new_level(latest, earlier[-max(1, MOST_NIGHTS - len(latest)) :]) if latest else None
    return Baseline(
        centre=float(chosen.mean()),
        variance=max(float(chosen.var(ddof=1)), _SMALLEST),
        degrees=len(chosen) - 1.0,
        nights=len(chosen),
        spread=_usual_spread(night for night, stays in zip(latest, kept, strict=True) if stays),
        correlation=_correlation(chosen),
    )


class Scatter(NamedTuple):
    """How far runs of a series scatter: their variance, of logarithms, worth so many degrees of freedom."""

    variance: float
    degrees: int


def scatter_of(nights: Sequence[Night]) -> Scatter | None:
    """Returns what runs scatter by around whatever levels these nights had; None where they are too few."""
    scatter, degrees = _around_levels(_centres(nights[-MOST_NIGHTS:]))
    if degrees < _ENOUGH_DEGREES:
        return None
    return Scatter(max(float(scatter @ scatter) / degrees, _SMALLEST), degrees)


def enough(nights: Sequence[Night]) -> bool:
    """Says whether so many of these nights are no spikes that a level can be told from them alone."""
    return int(_without_strays(_centres(nights[-MOST_NIGHTS:])).sum()) >= ENOUGH_NIGHTS


def _of_new_level(nights: Sequence[Night], earlier: Sequence[Night]) -> Baseline | None:
    """Returns the baseline of a level of few nights: its centre is theirs, its scatter that of earlier ones, too.

    Where its own nights scatter more than the earlier ones did, that is what counts.
    """
    known = scatter_of(earlier)
    if known is None:
        return None
    centres = _centres(nights)
    near = np.abs(centres - np.median(centres)) <= _STRAY * math.sqrt(known.variance)
    # Two nights far apart: the level began with the first.
    chosen = centres[near] if near.any() else centres[:1]
    own = float(((chosen - chosen.mean()) ** 2).sum())
    alone = own / (len(chosen) - 1) if len(chosen) > 1 else 0.0
    degrees = known.degrees + len(chosen) - 1
    return Baseline(
        centre=float(chosen.mean()),
        variance=max((known.variance * known.degrees + own) / degrees, alone),
        degrees=float(degrees),
        nights=len(chosen),
        spread=_usual_spread((*earlier, *nights)),
        correlation=_correlation(_around_levels(_centres(earlier))[0]),
    )


def _around_levels(centres: NDArray[np.float64]) -> tuple[NDArray[np.float64], int]:
    """Returns how far nights are off the mean of those between two jumps, and the degrees of freedom of that.

    A jump is where a night is further off the one before than neighbours are by chance: levels began and ended there.
    """
    apart = np.abs(np.diff(centres))
    if not len(apart):
        return np.zeros(len(centres)), 0
    scale = max(_TO_SIGMA * float(np.median(apart)), math.sqrt(_SMALLEST))
    parts = np.split(centres, np.flatnonzero(apart > _STRAY * scale) + 1)
    return np.concatenate([part - part.mean() for part in parts]), len(centres) - len(parts)


def _centres(nights: Sequence[Night]) -> NDArray[np.float64]:
    return np.array([night.settled.centre for night in nights], dtype=np.float64)


def _usual_spread(nights: Iterable[Night]) -> float:
    """Returns the variance that the repeats within a run explain, as most runs have it."""
    spreads = [night.settled.spread for night in nights if night.settled.spread]
    return float(np.median(spreads)) if spreads else 0.0


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
