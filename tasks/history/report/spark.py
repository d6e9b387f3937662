"""A series as a line of the height of a word, for tables of many. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

WIDTH, HEIGHT = 150.0, 28.0
MOST = 60
"""Nights that are shown, the latest."""
_EDGE = 3.0
_LEAST_REACH = 0.02
_FAR = 3.0


@dataclass(frozen=True)
class Spark:
    """`path`: the values as a line. `level`: the height of what the series is held to. The last value has a dot."""

    path: str
    x: float
    y: float
    level: float | None
    label: str


def spark(values: Sequence[float], level: float | None, label: str) -> Spark | None:
    """Returns the drawing of values, the latest last; None for fewer than two."""
    shown = np.asarray(values[-MOST:], dtype=np.float64)
    if len(shown) < 2:
        return None
    known = shown if level is None else np.append(shown, level)
    # Spikes are cut, so that what lies between them can be seen; the latest value only where it is off by a multiple.
    first, middle, third = np.percentile(shown, (25, 50, 75))
    fence = 4 * max(third - first, _LEAST_REACH * abs(middle))
    last = float(np.clip(shown[-1], middle / _FAR, middle * _FAR)) if middle > 0 else middle
    low, high = max(known.min(), min(first - fence, last)), min(known.max(), max(third + fence, last))
    spare = max(0.0, 2 * _LEAST_REACH * abs(middle) - (high - low)) / 2
    low, high = low - spare, max(high + spare, low - spare + 1e-12)
    heights = HEIGHT - _EDGE - (np.clip(shown, low, high) - low) / (high - low) * (HEIGHT - 2 * _EDGE)
    steps = np.linspace(_EDGE, WIDTH - _EDGE, len(shown))
    points = [f"{x:.1f} {y:.1f}" for x, y in zip(steps, heights, strict=True)]
    line = None
    if level is not None:
        share = (min(max(level, low), high) - low) / (high - low)
        line = round(float(HEIGHT - _EDGE - share * (HEIGHT - 2 * _EDGE)), 1)
    return Spark("M" + "L".join(points), float(steps[-1]), round(float(heights[-1]), 1), line, label)
