"""How sure the last nights are off a series' level, by windows of one, two and more nights. Pure.

The statistic of a window is the sum of its runs' distances from the baseline, each in standard deviations and at
most what is nearly impossible, over what that sum scatters by; it is read from Student's t. A single run proves
nothing, however far off it is: without the one that is furthest off, a window's others must be unlikely by
themselves, and where that one is far from the others, too, it is a spike and the others are judged alone.

The windows share the chance of a false alarm: most of it goes to the shortest two, since a step should be
found within two nights; the long ones are for ramps and small steps.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from tasks.history.detection.baseline import ENOUGH_NIGHTS, Baseline, enough
from tasks.history.detection.series import Night, Series

WINDOWS = {1: 0.4, 2: 0.45, 4: 0.1, 8: 0.05}
"""How many nights a window holds, and its share of the chance of a false alarm."""

GUARD = max(WINDOWS) - 1
"""Nights before the one in question that are left out of the baseline: a change may have begun in them."""

_NEARLY_IMPOSSIBLE = 7e-5
"""The chance of the longest distance that counts, 3.8 standard deviations where these are known; beyond, a run that
is further off says no more."""

_REST = 0.03
"""How unlikely a window's runs must be without the one that is furthest off."""

_SPIKE = 1.35e-3
"""The chance of being as far beyond the others of its window as a run that is no spike may be."""


@dataclass(frozen=True)
class Evidence:
    """Of the window that tells most. `effect`: mean distance from the level, of logarithms, all runs in full.

    `probability`: of runs that far off in this direction without any change, corrected for the number of
    windows. `agreed`: more than one run shows it.
    """

    window: int
    effect: float
    probability: float
    agreed: bool


def before(series: Series) -> tuple[Night, ...]:
    """Returns the nights that make the baseline of the latest."""
    earlier = len(series.nights) - 1
    # Where scatter is known from other levels, a level of few nights leaves out the last one: so two can be judged.
    most = earlier - 1 if series.earlier and earlier > 1 else earlier
    guarded = max(earlier - GUARD, min(most, ENOUGH_NIGHTS))
    limit = earlier if series.level is None else series.level
    while guarded < min(limit, GUARD + ENOUGH_NIGHTS) and not (
        series.earlier or enough(series.nights[:guarded])
    ):
        guarded += 1  # a spike among the first nights would leave it unjudged for as many again
    return series.nights[: min(guarded, limit)]


def evidence(series: Series, baseline: Baseline, direction: int) -> Evidence:
    """Returns how sure a series' latest nights are above its level (`direction` 1) or below (-1)."""
    nights, known = series.nights, len(series.nights) - len(before(series))
    best = Evidence(1, 0.0, 1.0, agreed=False)
    for window, share in WINDOWS.items():
        if window > known:
            break
        off = _distances(nights[-window:], baseline, direction)
        probability, agreed = _judge(off, window, baseline)
        if probability / share < best.probability:
            runs = [run.centre for night in nights[-window:] for run in night.runs]
            effect = sum(runs) / len(runs) - baseline.centre
            best = Evidence(window, effect, probability / share, agreed)
    return best


def _judge(off: Sequence[float], window: int, baseline: Baseline) -> tuple[float, bool]:
    """Returns the probability of a window's distances, and whether more than one run shows it."""
    far, *near = sorted(off, reverse=True)
    if not near:
        return _probability(off, window, baseline), False
    rest = _probability(near, window, baseline)
    apart = _quantile(baseline.degrees, _SPIKE) * math.sqrt(1 + 1 / len(near))
    if far - sum(near) / len(near) > apart:
        return rest, len(near) > 1
    return _probability(off, window, baseline), rest < _REST


@functools.lru_cache(maxsize=4096)
def _quantile(degrees: float, probability: float) -> float:
    """Returns the distance that is exceeded with a probability, by Student's t."""
    from scipy.special import stdtrit

    return -float(stdtrit(degrees, probability))


def _distances(nights: Sequence[Night], baseline: Baseline, direction: int) -> list[float]:
    """Returns how many standard deviations each run is off."""
    wilder = _wilder([run.spread for night in nights for run in night.runs if run.spread], baseline)
    scale = math.sqrt(baseline.variance + wilder)
    return [direction * (run.centre - baseline.centre) / scale for night in nights for run in night.runs]


def _wilder(spreads: Sequence[float], baseline: Baseline) -> float:
    """Returns by how much the variance of runs has grown since the baseline, as far as their repeats tell.

    Five repeats of unchanged code show four times the usual variance in one run of a hundred; the mean of several
    runs wanders less.
    """
    mean = sum(spreads) / len(spreads) if spreads else 0.0
    usual = baseline.spread * (1 + 3 / math.sqrt(len(spreads) or 1))
    return max(0.0, mean - usual)


def _probability(off: Sequence[float], window: int, baseline: Baseline) -> float:
    """Returns how often a window of runs is so far off without a change, the baseline's uncertainty included."""
    from scipy.special import stdtr

    count = len(off)
    alike = 1 + 2 * baseline.correlation * (window - 1) / window
    scatter = math.sqrt(count * alike + count**2 / baseline.nights)
    longest = _quantile(baseline.degrees, _NEARLY_IMPOSSIBLE) * math.sqrt(1 + 1 / baseline.nights)
    return float(stdtr(baseline.degrees, -sum(min(one, longest) for one in off) / scatter))
