"""Measurement: all samples of one metric of one operation at one point, as an array of repeats by workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Combine = Literal["max", "sum"]


@dataclass(frozen=True)
class Measurement:
    """`values` has shape (observations, workers), NaN where a worker gave nothing.

    An observation is one occurrence within one repeat, in order. `repeats`, `warmup` have shape
    (observations,).
    """

    point: int
    benchmark: str
    benchmark_key: str
    operation: str
    metric: str
    unit: str
    repeats: NDArray[np.int64]
    warmup: NDArray[np.bool_]
    workers: NDArray[np.int64]
    values: NDArray[np.float64]

    def combined(self, how: Combine, *, warmup: bool = False) -> NDArray[np.float64]:
        """Returns one value per observation: over workers the largest, or the sum.

        An observation that lacks a worker is left out: the missing one may have been the slowest. Warm-up
        repeats are left out too, or with `warmup` returned alone.
        """
        chosen = self.values[self.warmup == warmup]
        whole = chosen[~np.isnan(chosen).any(axis=1)]
        values: NDArray[np.float64] = whole.max(axis=1) if how == "max" else whole.sum(axis=1)
        return values
