"""How much a run differs from earlier ones: a ratio of medians, its interval, and the noise to judge it by. Pure.

    effect       median of this run's repeats over the median of the earlier runs' medians, minus one: +0.10
                 means 10 % more
    interval     95 %, from the scatter of both medians, on the logarithm (so that twice and half are alike)
    noise floor  how far the interval of an earlier run reaches, at most, when it is compared in the same way with
                 the other earlier runs. Nothing changed among them, so whatever they show is noise. A further
                 run of unchanged code is as likely as any of k runs to reach furthest: it stays within in k of
                 k + 1 cases

With one baseline run the scatter is that of its repeats: nothing is known of how runs differ from each other,
and the basis says so. With two or more it is the scatter of the runs' medians.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tasks.history.intervals import median, median_variance, t_quantile

ENOUGH_RUNS = 8
"""Earlier runs from which on noise can be told from change."""

Basis = Literal["within one run", "run to run"]


@dataclass(frozen=True)
class Effect:
    """`effect`, `low`, `high`, `noise_floor` are fractions. None: too few values or runs to tell.

    The medians are what was measured. `least`, in their unit: some values were below it, and were compared as if
    they were it; None: none was.
    """

    effect: float
    low: float | None
    high: float | None
    basis: Basis
    noise_floor: float | None
    current_median: float
    baseline_median: float
    baseline_runs: int
    least: float | None = None

    @property
    def both_below_least(self) -> bool:
        """Says whether this run and the earlier ones are alike only because both are too little to compare."""
        return self.least is not None and max(self.current_median, self.baseline_median) < self.least


def measure_effect(
    current: Sequence[float], baseline: Sequence[Sequence[float]], least: float = 0.0
) -> Effect | None:
    """Compares one run's repeats with those of earlier runs, at least one. None: values have no ratio.

    What is below `least` is compared as if it were `least`, and told as it is.
    """
    if not current or not all(have_ratio(run, least) for run in (current, *baseline)):
        return None
    smallest = min(value for run in (current, *baseline) for value in run)
    difference = _difference(current, baseline, least)
    floor = _noise_floor(baseline, least) if len(baseline) >= ENOUGH_RUNS else None
    return Effect(
        effect=math.expm1(difference.centre),
        low=None if difference.reach is None else math.expm1(difference.centre - difference.reach),
        high=None if difference.reach is None else math.expm1(difference.centre + difference.reach),
        basis="within one run" if len(baseline) == 1 else "run to run",
        noise_floor=None if floor is None else math.expm1(floor),
        current_median=median(current),
        baseline_median=_centre(baseline),
        baseline_runs=len(baseline),
        least=least if smallest < least else None,
    )


def have_ratio(values: Sequence[float], least: float = 0.0) -> bool:
    """Says whether values can be compared: all are finite, and positive unless so little counts as `least`."""
    return all(math.isfinite(value) and max(value, least) > 0 for value in values)


@dataclass(frozen=True)
class _Difference:
    """Of two logarithms; `reach` is half the width of the interval, None when it cannot be told."""

    centre: float
    reach: float | None


def _difference(current: Sequence[float], runs: Sequence[Sequence[float]], least: float) -> _Difference:
    here, there = _logs([median(current), _centre(runs)], least)
    base = runs[0] if len(runs) == 1 else [median(run) for run in runs]
    return _Difference(here - there, _reach(_logs(current, least), _logs(base, least)))


def _logs(values: Sequence[float], least: float) -> list[float]:
    return [math.log(max(value, least)) for value in values]


def _centre(runs: Sequence[Sequence[float]]) -> float:
    return median([median(run) for run in runs])


def _noise_floor(runs: Sequence[Sequence[float]], least: float) -> float | None:
    """Returns the furthest that any of the runs reaches when it is compared with the others."""
    each = [_difference(run, [*runs[:n], *runs[n + 1 :]], least) for n, run in enumerate(runs)]
    return max((abs(one.centre) + one.reach for one in each if one.reach is not None), default=None)


def _reach(current: Sequence[float], base: Sequence[float]) -> float | None:
    """Half the width of the 95 % interval of the difference of two medians; None when either has only one value."""
    n, k = len(current), len(base)
    if n < 2 or k < 2:
        return None
    here, there = median_variance(current), median_variance(base)
    total = here + there
    if total == 0:
        return 0.0
    # Welch and Satterthwaite: the degrees of freedom that a sum of two estimated variances is worth.
    degrees = total**2 / (here**2 / (n - 1) + there**2 / (k - 1))
    return t_quantile(degrees) * math.sqrt(total)
