"""What the scatter of many series tells of the scatter of each: variances drawn towards what is common. Pure.

The method is Smyth's (2004, Statistical Applications in Genetics and Molecular Biology 3/1), known from limma:
variances are taken as draws from one scaled inverse chi-square distribution, whose two parameters follow from
the mean and variance of their logarithms. Series that scatter alike then know their scatter as well as if each
had a far longer history; where they do not, each keeps its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tasks.history.detection.baseline import Baseline

_FEWEST = 6
"""Series from which on there is something to learn from the others."""

_MOST_DEGREES = 1000.0
"""As good as known: where variances scatter no more than chance alone makes them."""


def moderated(baselines: Sequence[Baseline]) -> list[Baseline]:
    """Returns the same baselines with their variances drawn towards each other, and the degrees that this is worth."""
    if len(baselines) < _FEWEST:
        return list(baselines)
    from scipy.special import digamma, polygamma

    variances = np.array([one.variance for one in baselines])
    degrees = np.array([one.degrees for one in baselines])
    logs = np.log(variances) - digamma(degrees / 2) + np.log(degrees / 2)
    beyond = float(logs.var(ddof=1) - polygamma(1, degrees / 2).mean())
    if beyond <= 0:
        shared, prior = _MOST_DEGREES, math.exp(float(logs.mean()))
    else:
        shared = min(2 * _inverse_trigamma(beyond), _MOST_DEGREES)
        prior = math.exp(float(logs.mean()) + float(digamma(shared / 2)) - math.log(shared / 2))
    return [
        replace(
            one,
            variance=(shared * prior + one.degrees * one.variance) / (shared + one.degrees),
            degrees=shared + one.degrees,
        )
        for one in baselines
    ]


def _inverse_trigamma(value: float) -> float:
    """Returns the x > 0 whose trigamma is `value`, by Newton's method on the reciprocal, which is nearly straight."""
    from scipy.special import polygamma

    x = 0.5 + 1 / value
    for _ in range(50):
        here = float(polygamma(1, x))
        step = here * (1 - here / value) / float(polygamma(2, x))
        x += step
        if abs(step) < 1e-9 * x:
            break
    return x
