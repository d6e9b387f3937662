"""Where the true median of a few values lies: exact, free of any distribution, between two of the values.

With fewer than six values no such interval reaches 95 %; then it spans all values and says which confidence it
has (two values: 50 %, five: 93.75 %).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Interval:
    """From `low` to `high`, holding the true value with probability `confidence` (0 to 1)."""

    low: float
    high: float
    confidence: float


def median_interval(values: Iterable[float]) -> Interval | None:
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
