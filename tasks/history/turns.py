"""Two versions measured in turns on the same hardware in one night: what one of them changed, series by series. Pure.

In each turn both were measured, one right after the other, so that what drifts over a night is on both sides alike.
The statistic is that of the differences of logarithms, turn by turn: Student's t, with as many degrees of freedom as
there are turns less one; over all series of a cell the share of false changes is held at 5 % (Benjamini and Hochberg).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tasks.history.intervals import t_quantile
from tasks.history.quantities import percent
from tasks.history.verdict import Verdict

FEWEST = 3
"""Turns from which on something can be said."""

_FALSE = 0.05


@dataclass(frozen=True)
class Turns:
    """A series in both versions: medians of the runs, turn by turn. `worse`: 1 where more is worse, else -1.

    `least`: the smallest change that counts, of logarithms.
    """

    here: Sequence[float]
    other: Sequence[float]
    worse: int
    least: float


@dataclass(frozen=True)
class Judged:
    """What was found of it. `effect` with its 95 % interval as fractions, positive where values grew."""

    verdict: Verdict
    reason: str
    effect: float | None = None
    low: float | None = None
    high: float | None = None
    probability: float | None = None


@dataclass(frozen=True)
class _Seen:
    mean: float
    reach: float
    probability: float


def judge_turns(series: Mapping[str, Turns]) -> dict[str, Judged]:
    """Returns what may be said of each series."""
    seen = {name: found for name, one in series.items() if (found := _seen(one)) is not None}
    sure = _sure({name: one.probability for name, one in seen.items()})
    return {name: _judged(one, seen.get(name), name in sure) for name, one in series.items()}


def _seen(turns: Turns) -> _Seen | None:
    from scipy.special import stdtr

    pairs = [(a, b) for a, b in zip(turns.here, turns.other, strict=False) if a > 0 and b > 0]
    if len(pairs) < FEWEST:
        return None
    off = np.array([math.log(a / b) for a, b in pairs])
    degrees = len(off) - 1
    # Medians that agree to the digit tell of clocks and rounding, not of certainty.
    error = max(float(off.std(ddof=1)), 1e-4) / math.sqrt(len(off))
    mean = float(off.mean())
    return _Seen(mean, t_quantile(degrees) * error, 2 * float(stdtr(degrees, -abs(mean) / error)))


def _sure(probabilities: Mapping[str, float]) -> set[str]:
    ordered = sorted(probabilities, key=lambda name: probabilities[name])
    holds = [k for k, name in enumerate(ordered, 1) if probabilities[name] <= _FALSE * k / len(ordered)]
    return set(ordered[: max(holds, default=0)])


def _judged(turns: Turns, seen: _Seen | None, sure: bool) -> Judged:
    if seen is None:
        return Judged(Verdict.INCONCLUSIVE, f"it takes {FEWEST} turns in which both were measured")
    told = (
        math.expm1(seen.mean),
        math.expm1(seen.mean - seen.reach),
        math.expm1(seen.mean + seen.reach),
        seen.probability,
    )
    change = f"{percent(told[0])} ({percent(told[1])} to {percent(told[2])})"
    if sure and abs(seen.mean) >= turns.least:
        worse = seen.mean * turns.worse > 0
        return Judged(Verdict.REGRESSED if worse else Verdict.IMPROVED, change, *told)
    if abs(seen.mean) + seen.reach <= max(turns.least, 1e-3):
        return Judged(
            Verdict.PASS, f"{change}: less than what counts, {percent(math.expm1(turns.least))[1:]}", *told
        )
    if sure:
        return Judged(Verdict.PASS, f"{change}: surely there, and less than what counts", *told)
    return Judged(Verdict.INCONCLUSIVE, f"{change}: more turns would tell", *told)
