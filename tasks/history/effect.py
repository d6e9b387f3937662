"""How much one run differs from earlier ones: a ratio of medians, its interval, and the noise to judge it by.
Pure.

    effect       median of this run's repeats ÷ centre of the baseline, minus one; + 0.10 means 10 % more
    interval     95 %, from the scatter of both medians, on the logarithm (so that twice and half are alike)
    noise floor  how far the median of one run of unchanged code lands from the centre of the others, 95 % of
    times

With one baseline run the scatter is that of its repeats: nothing is known of how runs differ from each other,
and the basis says so. With two or more it is the scatter of the runs' medians.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tasks.history.intervals import median, median_variance, spread_of_next, t_quantile

Basis = Literal["within one run", "run to run"]


@dataclass(frozen=True)
class Effect:
    """`effect`, `low`, `high`, `noise_floor` are fractions. None: cannot be told from so few values."""

    effect: float
    low: float | None
    high: float | None
    basis: Basis
    noise_floor: float | None
    current_median: float
    baseline_median: float
    baseline_runs: int


def measure_effect(current: Sequence[float], baseline: Sequence[Sequence[float]]) -> Effect | None:
    """Compares one run's repeats with those of earlier runs, at least one. None: a value is not positive."""
    if not current or any(value <= 0 for run in (current, *baseline) for value in run):
        return None
    logs = np.log(np.asarray(current, dtype=np.float64))
    run_logs = [np.log(np.asarray(run, dtype=np.float64)) for run in baseline]
    if len(run_logs) == 1:
        basis: Basis = "within one run"
        base = run_logs[0]
        noise_floor = None
    else:
        basis = "run to run"
        base = np.asarray([median(run) for run in run_logs])
        noise_floor = math.expm1(spread_of_next(base))
    centre = median(logs) - median(base)
    reach = _reach(logs.tolist(), base.tolist())
    return Effect(
        effect=math.expm1(centre),
        low=None if reach is None else math.expm1(centre - reach),
        high=None if reach is None else math.expm1(centre + reach),
        basis=basis,
        noise_floor=noise_floor,
        current_median=median(current),
        baseline_median=math.exp(median(base)),
        baseline_runs=len(baseline),
    )


def _reach(current: Sequence[float], base: Sequence[float]) -> float | None:
    """Half the width of the 95 % interval of the difference of two medians; None when either has only one
    value.
    """
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
