"""What a bench measured against what it must reach, and the little statistics that takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Bar:
    """A ratio of ours to a peer's with its 95 % interval, and the limits between which it must lie."""

    what: str
    value: float
    low: float
    high: float
    at_least: float
    at_most: float
    whole_interval: bool = False

    @property
    def holds(self) -> bool:
        """Whether the value, or with `whole_interval` all of its interval, lies within the limits."""
        low, high = (self.low, self.high) if self.whole_interval else (self.value, self.value)
        return self.at_least <= low and high <= self.at_most


def median_ratio(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float, float]:
    """Returns the median of round-by-round ratios with a bootstrapped 95 % interval over rounds."""
    ratios = np.asarray(ours) / np.asarray(theirs)
    draws = np.random.default_rng(0).choice(ratios, (10_000, len(ratios)))
    low, high = np.quantile(np.median(draws, axis=1), [0.025, 0.975])
    return float(np.median(ratios)), float(low), float(high)


def bar(
    what: str,
    ours: Sequence[float],
    theirs: Sequence[float],
    *,
    at_most: float,
    at_least: float = 0.0,
    whole_interval: bool = False,
) -> Bar:
    """Returns the bar for measurements of as many rounds of ours as of theirs."""
    return Bar(what, *median_ratio(ours, theirs), at_least, at_most, whole_interval)


def table(bars: Sequence[Bar]) -> str:
    """Returns all bars as text, one a line."""
    width = max(len(each.what) for each in bars)
    lines = []
    for each in bars:
        limit = (
            f"<= {each.at_most:.2f}" if not each.at_least else f"{each.at_least:.2f} to {each.at_most:.2f}"
        )
        verdict = "holds" if each.holds else "MISSED"
        interval = f"[{each.low:.3f}, {each.high:.3f}]"
        lines.append(f"{each.what:<{width}}  {each.value:6.3f}  {interval:<16}  {limit:<12}  {verdict}")
    return "\n".join(lines)
