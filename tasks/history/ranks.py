"""How far two samples are apart by all pairs of their values: the shift, and its interval by the rank test. Pure.

The shift is the median of all differences (Hodges and Lehmann 1963), its interval that of Mann and Whitney's test: the
shifts which that does not reject. So an interval that excludes 0 and a share of pairs that chance does not give are
one and the same finding, and no single stray value moves either. Exact up to `_EXACT` values a side.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tasks.history.intervals import CONFIDENCE

_EXACT = 40


class Shift(NamedTuple):
    """By how much values are larger than others, and between which bounds that lies with 95 %."""

    centre: float
    low: float
    high: float


def shift(here: Sequence[float], there: Sequence[float]) -> Shift | None:
    """Returns by how much the values `here` are larger; None where so few tell nothing with 95 %, whatever they are."""
    bound = _bound(*sorted((len(here), len(there))))
    if bound is None:
        return None
    apart = np.sort((np.asarray(here)[:, None] - np.asarray(there)).ravel())
    return Shift(float(np.median(apart)), float(apart[bound - 1]), float(apart[-bound]))


@functools.lru_cache(maxsize=1024)
def _bound(few: int, many: int) -> int | None:
    """Returns which of the sorted differences, from either end and from 1 on, bounds the interval; None: none does."""
    tail, pairs = (1 - CONFIDENCE) / 2, few * many
    if few == 0:
        return None
    if many > _EXACT:
        from scipy.special import ndtri

        scatter = math.sqrt(pairs * (few + many + 1) / 12)
        return max(0, math.floor(pairs / 2 + 0.5 + float(ndtri(tail)) * scatter)) or None
    allowed, told = tail * math.comb(few + many, few), 0
    for place, ways in enumerate(_ways(few, many)):
        told += ways
        if told > allowed:
            return place or None
    raise AssertionError("all ways together are more than a tail of them")


def _ways(few: int, many: int) -> list[int]:
    """Returns in how many orders of all values so many pairs are larger: the Gaussian binomial coefficient's terms."""
    ways = [1] + [0] * (few * many)
    for n in range(1, few + 1):
        for place in range(len(ways) - 1, many + n - 1, -1):
            ways[place] -= ways[place - many - n]
        for place in range(n, len(ways)):
            ways[place] += ways[place - n]
    return ways
