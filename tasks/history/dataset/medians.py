"""Runs as detection reads them, of the rows of many series at once: their medians and how much these scatter. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tasks.history.detection.series import Run, run_of
from tasks.history.intervals import median_variances


def runs_of(
    values: NDArray[np.float64],
    begins: NDArray[np.int64],
    lengths: NDArray[np.int64],
    least: NDArray[np.float64],
) -> Sequence[Run | None]:
    """Returns what `run_of` makes of each row, all rows of equally many values in one go.

    Row n has lengths[n] of the values, from begins[n] on; `least[n]` is what less than it counts as.
    """
    found: list[Run | None] = [None] * len(least)
    for length in map(int, np.unique(lengths)):
        rows = np.flatnonzero(lengths == length)
        matrix = values[begins[rows][:, None] + np.arange(length)]
        whole = (np.isfinite(matrix) & ((matrix > 0) | (least[rows, None] > 0))).all(axis=1)
        for row, odd in zip(rows[~whole].tolist(), matrix[~whole], strict=True):
            found[row] = run_of(odd, float(least[row]))  # something in it is no number, or no positive one
        if length:
            clean = rows[whole]
            runs = _runs(np.log(np.maximum(matrix[whole], least[clean, None])))
            if len(clean) == len(found):
                return runs
            for row, run in zip(clean.tolist(), runs, strict=True):
                found[row] = run
    return found


def _runs(logs: NDArray[np.float64]) -> list[Run | None]:
    """Returns the run of each row of as many logarithms."""
    ordered = np.sort(logs, axis=1)
    length = ordered.shape[1]
    centres = (ordered[:, (length - 1) // 2] + ordered[:, length // 2]) / 2
    spreads = median_variances(ordered).tolist() if length > 1 else [None] * len(logs)
    return list(map(Run, centres.tolist(), spreads))
