"""What saves and restores take under one variant, and how much more than under another, by counting pairs. Pure.

outlier    further than `_FAR` deviations (the median of them, as of a normal distribution) from the median, and more
           than `_MATTERS` away; of fewer than five, where two are soon alike by chance, `_TIMES_OF_FEW` as much or as
           little, as a first save that has to warm up. It stays in the median, which hardly feels it, and is told;
           the spread leaves it out
cost       median over median, minus one: +0.05 is 5 % more
interval   of the ratio, from all pairs of a value here and one there: so many of the smallest and largest are cut off
           as leave 95 % (Mann and Whitney's, exact). It asks for nothing of how values are distributed, and one that
           is far off weighs no more than any other: a first save of three times the usual length would leave an
           interval from variances without a bound. With too few values all pairs are spanned, and `confidence` tells
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tasks.history.effect import have_ratio
from tasks.history.intervals import CONFIDENCE, Interval, median, median_interval
from tasks.history.quantities import percent

Standing = Literal["within", "over", "cannot tell"]

_FAR = 3.5
_MATTERS, _TIMES_OF_FEW = 0.2, 2.5
_SIGMA = 1.4826
"""Standard deviations of a normal distribution in one median absolute deviation."""

_EXACT = 2500
"""Pairs up to which arrangements are counted one by one; with more the normal distribution is as good."""

_QUANTILE = 1.959964


@dataclass(frozen=True)
class Times:
    """Seconds of one operation, in the order they were measured. `low` and `high`: of those that are no outliers.

    `outliers`: places in `values`. `interval` holds the true median, see `median_interval`.
    """

    values: Sequence[float]
    median: float
    low: float
    high: float
    outliers: Sequence[int]
    interval: Interval | None

    @property
    def n(self) -> int:
        """How many there are, outliers too."""
        return len(self.values)


@dataclass(frozen=True)
class Cost:
    """How much more an operation takes than under the base, a fraction; None: not known. `reason`: of `standing`."""

    effect: float | None
    interval: Interval | None
    standing: Standing
    reason: str


def times_of(values: Sequence[float]) -> Times | None:
    """Returns what values come to; None: there are none."""
    if not values:
        return None
    outliers = _outliers(values)
    usual = [value for place, value in enumerate(values) if place not in outliers]
    return Times(list(values), median(values), min(usual), max(usual), outliers, median_interval(values))


def cost_of(here: Times | None, there: Times | None, limit: float) -> Cost:
    """Holds times against those of the base. `limit`: what they may take more, a fraction."""
    if here is None or there is None:
        whose = "here" if here is None else "of the variant it is held against"
        return Cost(None, None, "cannot tell", f"none was measured {whose}")
    if not have_ratio([*here.values, *there.values]):
        return Cost(None, None, "cannot tell", "some took no time at all: there is no ratio")
    effect = here.median / there.median - 1
    interval = ratio_interval(here.values, there.values)
    standing, reason = _standing(effect, interval, limit, (here.n, there.n))
    return Cost(effect, interval, standing, reason)


def ratio_interval(here: Sequence[float], there: Sequence[float]) -> Interval | None:
    """Returns where the ratio of two groups' values lies, minus one; None for fewer than two values in either."""
    n, k = len(here), len(there)
    if n < 2 or k < 2:
        return None
    ratios = sorted(ours / theirs for ours in here for theirs in there)
    cut, confidence = _cut(*sorted((n, k)))
    middle = median(here) / median(there)  # of many values the median's own ratio may lie a little outside
    low, high = min(middle, ratios[cut - 1]), max(middle, ratios[n * k - cut])
    return Interval(low - 1, high - 1, confidence)


def _standing(
    effect: float, interval: Interval | None, limit: float, counts: tuple[int, int]
) -> tuple[Standing, str]:
    allowed = f"the {percent(limit)[1:]} that it may"
    if interval is None or interval.confidence < CONFIDENCE:
        few = f"{counts[0]} here and {counts[1]} there"
        return (
            "cannot tell",
            f"{percent(effect)} by the medians; {few} are too few to be sure: take at least 4 of each",
        )
    if interval.low > limit:
        return "over", f"{percent(effect)}, more than {allowed}"
    if interval.high <= limit:
        return "within", f"{percent(effect)}, no more than {allowed}"
    reach = f"from {percent(interval.low)} to {percent(interval.high)}"
    return "cannot tell", f"{percent(effect)}, {reach}: on both sides of {allowed}"


def _outliers(values: Sequence[float]) -> list[int]:
    if len(values) < 3:
        return []
    middle = median(values)
    far = _FAR * _SIGMA * median([abs(value - middle) for value in values])
    return [
        place
        for place, value in enumerate(values)
        if abs(value - middle) > far and _is_another(value, middle, len(values))
    ]


def _is_another(value: float, middle: float, of: int) -> bool:
    if of >= 5:
        return abs(value - middle) > _MATTERS * abs(middle)
    return value > _TIMES_OF_FEW * middle or value * _TIMES_OF_FEW < middle


@functools.lru_cache(maxsize=256)
def _cut(n: int, k: int) -> tuple[int, float]:
    """Returns which ratio, from either end, an interval begins at, and how sure it is; n is at most k."""
    if n * k > _EXACT:
        reach = _QUANTILE * math.sqrt(n * k * (n + k + 1) / 12)
        return max(1, math.floor(n * k / 2 - reach)), CONFIDENCE
    total, below, cut = math.comb(n + k, n), 1, 1
    ways = _arrangements(n, k)
    while 1 - 2 * (below + ways[cut]) / total >= CONFIDENCE:
        below, cut = below + ways[cut], cut + 1
    return cut, 1 - 2 * below / total


def _arrangements(n: int, k: int) -> list[int]:
    """Returns of how many orders of n and k values in a row 0, 1, 2 … pairs are the wrong way round."""
    ways = [1] + [0] * (n * k)
    for factor in range(1, n + 1):
        for place in range(n * k, k + factor - 1, -1):
            ways[place] -= ways[place - k - factor]
        for place in range(factor, n * k + 1):
            ways[place] += ways[place - factor]
    return ways
