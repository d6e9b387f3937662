"""What detection reads: runs, the nights that they belong to, and the nights that a baseline may be made of. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tasks.history.intervals import median_variance


class Run(NamedTuple):  # and no dataclass, as Night: a year of nights has hundreds of thousands of them
    """One run of a series: the logarithm of the median of its repeats, and that median's variance.

    `spread` is None where one repeat leaves nothing to tell it from.
    """

    centre: float
    spread: float | None = None


class Night(NamedTuple):
    """One night of a series: its run, then its reruns in the order in which they were made."""

    name: str
    runs: tuple[Run, ...] = ()

    @property
    def settled(self) -> Run:
        """Returns the run that speaks for the night in a baseline: the last one.

        A rerun is made because the first run stood out, so the first is off by choice; the rerun is not.
        """
        return self.runs[-1]


@dataclass(frozen=True)
class Series:
    """The nights of a series, latest last: the one in question.

    `level`: how many of them, from the first, a baseline may be made of; None: all. Nights since an alert began
    or since values got better tell of another level. `earlier`: nights of levels before this one, which tell how
    much its runs scatter while it has few nights of its own.
    """

    nights: tuple[Night, ...]
    level: int | None = None
    least: float = 0.0
    earlier: tuple[Night, ...] = ()


def run_of(values: Sequence[float] | NDArray[np.float64], least: float = 0.0) -> Run | None:
    """Returns a run from its repeats, in any unit; None where no value of them is a positive number.

    What is below `least`, in the same unit, counts as `least`.
    """
    told = np.asarray(values, dtype=np.float64)
    told = told[np.isfinite(told)]
    told = np.maximum(told, least) if least > 0 else told[told > 0]
    if not len(told):
        return None
    logs = np.log(told)
    return Run(float(np.median(logs)), median_variance(logs) if len(logs) > 1 else None)
