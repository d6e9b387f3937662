"""Medians with honest uncertainty, for the few values a benchmark gives. Pure; no random numbers anywhere.

Two tools, each for one question:

- `median_interval`: where does the true median of these repeats lie? Exact and free of any distribution:
  between two order statistics. With fewer than six values no such interval reaches 95 %; then it spans all
  values and says which confidence it has (two values: 50 %, five: 93.75 %).
- `median_variance`: how much does such a median scatter? Maritz and Jarrett (1978): what a bootstrap of the
  median converges to, in closed form, so that the same samples always give the same answer.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Interval:
    """From `low` to `high`, holding the true value with probability `confidence` (0 to 1)."""

    low: float
    high: float
    confidence: float


def median(values: Sequence[float] | NDArray[np.float64]) -> float:
    """Returns the median of at least one value."""
    return float(np.median(np.asarray(values, dtype=np.float64)))


def median_interval(values: Sequence[float] | NDArray[np.float64]) -> Interval | None:
    """Returns the narrowest order-statistic interval of the median with at least 95 %; None for fewer than 2
    values.

    [x(k), x(n+1-k)] holds the median with probability 1 - 2 P(Binomial(n, 1/2) < k): the k-th value from
    either end is on the wrong side only when fewer than k values fell there. For n < 6 even k = 1 stays below
    95 %: `confidence` tells.
    """
    ordered = sorted(float(value) for value in values)
    n = len(ordered)
    if n < 2:
        return None
    k, tail = 1, 0.5**n
    while k < (n + 1) // 2:
        larger = tail + math.comb(n, k) * 0.5**n
        if 1 - 2 * larger < CONFIDENCE:
            break
        k, tail = k + 1, larger
    return Interval(ordered[k - 1], ordered[n - k], 1 - 2 * tail)


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
