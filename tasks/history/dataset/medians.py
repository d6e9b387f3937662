"""Runs as detection reads them, of the rows of many series at once: their medians and how much these scatter. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tasks.history.detection.series import Run, run_of
from tasks.history.intervals import median_variances


def runs_of(
    values: NDArray[np.float64], offsets: NDArray[np.int32], least: NDArray[np.float64]
) -> Sequence[Run | None]:
    """Returns what `run_of` makes of each row, all rows of equally many values in one go.

    Row n has the values from offsets[n] to offsets[n + 1]; `least[n]` is what less than it counts as.
    """
    found: list[Run | None] = [None] * len(least)
    lengths = np.diff(offsets)
    for length in map(int, np.unique(lengths)):
        rows = np.flatnonzero(lengths == length)
        matrix = values[offsets[rows][:, None] + np.arange(length)]
        whole = (np.isfinite(matrix) & ((matrix > 0) | (least[rows, None] > 0))).all(axis=1)
        for row in rows[~whole].tolist():  # something in it is no number, or no positive one
            found[row] = run_of(values[offsets[row] : offsets[row + 1]], float(least[row]))
        if length:
            clean = rows[whole]
            logs = np.log(np.maximum(matrix[whole], least[clean, None]))
            spreads = median_variances(logs).tolist() if length > 1 else [None] * len(clean)
            for row, centre, spread in zip(
                clean.tolist(), np.median(logs, axis=1).tolist(), spreads, strict=True
            ):
                found[row] = Run(centre, spread)
    return found
