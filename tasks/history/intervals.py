"""Medians with honest uncertainty, for the few values a benchmark gives. Pure; no random numbers anywhere.

Two tools, each for one question:

- `median_interval`: where does the true median of these repeats lie? See runtime/contract/median.py.
- `median_variance`: how much does such a median scatter? Maritz and Jarrett (1978): what a bootstrap of the
  median converges to, in closed form, so that the same samples always give the same answer.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from runtime.contract.median import CONFIDENCE, Interval, median_interval

__all__ = [
    "CONFIDENCE",
    "Interval",
    "median",
    "median_interval",
    "median_variance",
    "median_variances",
    "t_quantile",
]


def median(values: Sequence[float] | NDArray[np.float64]) -> float:
    """Returns the median of at least one value."""
    return float(np.median(np.asarray(values, dtype=np.float64)))


def median_variance(values: Sequence[float] | NDArray[np.float64]) -> float:
    """Returns the estimated variance of the median of at least 2 values, corrected for small numbers by n / (n - 1)."""
    return float(median_variances(np.asarray(values, dtype=np.float64)[None])[0])


def median_variances(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Does the same for many rows of equally many values, shape (rows, values)."""
    ordered = np.sort(rows, axis=1)
    n = ordered.shape[1]
    weights = _weights(n)
    means = ordered @ weights
    variances: NDArray[np.float64] = (ordered - means[:, None]) ** 2 @ weights * n / (n - 1)
    return variances


@functools.cache
def _weights(n: int) -> NDArray[np.float64]:
    """Returns how much each of n ordered values counts for their median."""
    from scipy.special import betainc

    half = (n + 1) / 2
    weights: NDArray[np.float64] = np.diff(betainc(half, half, np.arange(n + 1) / n))
    return weights


def t_quantile(degrees: float) -> float:
    """Returns how many standard errors a two-sided 95 % interval reaches to each side, by Student's t."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, (1 + CONFIDENCE) / 2))
