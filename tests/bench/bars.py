"""What a bench measured against what it must reach, and the little statistics that takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_DRAWS = 10_000


@dataclass(frozen=True)
class Bar:
    """A ratio of ours to a peer's with its 95 % interval, and the limits between which it must lie.

    `ours` and `theirs` are medians in `unit`; `rounds`: how many pairs the ratio is the median of. With `at_most`
    infinite nothing has to hold: the number is there to be compared with.
    """

    what: str
    ours: float
    theirs: float
    unit: str
    rounds: int
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

    @property
    def cells(self) -> tuple[str, ...]:
        """The bar as a row of a table, under HEAD."""
        at_most = f"{self.at_most:.3f}".removesuffix("0")
        limit, verdict = f"≤ {at_most}", "holds" if self.holds else "MISSED"
        if self.at_least:
            limit = f"{self.at_least:.2f} to {at_most}"
        if math.isinf(self.at_most):
            limit = f"≥ {self.at_least:.2f}" if self.at_least else "none"
            verdict = verdict if self.at_least else "told"
        if self.whole_interval:
            limit += ", all of the interval"
        return (
            self.what,
            in_unit(self.ours, self.unit),
            in_unit(self.theirs, self.unit),
            f"{self.value:.3f}",
            f"{self.low:.3f} to {self.high:.3f}",
            str(self.rounds),
            limit,
            verdict,
        )


HEAD = ("what, ours / theirs", "ours", "theirs", "ratio", "95 % interval", "rounds", "bar", "verdict")


def bar(
    what: str,
    ours: Sequence[float],
    theirs: Sequence[float],
    *,
    at_most: float,
    at_least: float = 0.0,
    whole_interval: bool = False,
    allowance: float = 0.0,
    groups: int | None = None,
    unit: str = "s",
) -> Bar:
    """Returns the bar for measurements of as many rounds of ours as of theirs, in seconds (or MiB).

    `allowance` is taken off ours before it is compared. `groups`: how many pairs of processes the rounds come from,
    equally many from each, one after the other; None: a pair of its own for each.
    """
    ratios = (np.asarray(ours) - allowance) / np.asarray(theirs)
    low, high = interval(ratios, groups)
    return Bar(
        what,
        float(np.median(ours)),
        float(np.median(theirs)),
        unit,
        len(ratios),
        float(np.median(ratios)),
        low,
        high,
        at_least,
        at_most,
        whole_interval,
    )


def interval(ratios: Sequence[float] | np.ndarray, groups: int | None = None) -> tuple[float, float]:
    """Returns a 95 % bootstrap interval of the median: groups are drawn, then ratios within each of them.

    The ratios are those of `groups` groups of equal size, one after the other; None: each is its own. Rounds of one
    pair of processes share what is particular to these, so many of them alone do not make a result sure.
    """
    of_group = np.asarray(ratios).reshape(groups or len(ratios), -1)
    count, size = of_group.shape
    random = np.random.default_rng(0)
    drawn = random.integers(count, size=(_DRAWS, count, 1))
    within = random.integers(size, size=(_DRAWS, count, size))
    medians = np.median(of_group[drawn, within].reshape(_DRAWS, -1), axis=1)
    low, high = np.quantile(medians, [0.025, 0.975])
    return float(low), float(high)


def in_unit(value: float, unit: str) -> str:
    """Returns seconds in `s` or `ms`, a number of `MiB`, or a number of nothing, as many digits as mean something."""
    if not unit:
        return f"{value:.3g}"
    if unit == "MiB":
        return f"{value:.0f} MiB"
    return f"{value * 1e3:.1f} ms" if unit == "ms" else f"{value:.2f} s"


def table(bars: Sequence[Bar]) -> str:
    """Returns all bars as a Markdown table that is readable as it is, too."""
    rows = [HEAD, *(each.cells for each in bars)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in rows
    ]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])
