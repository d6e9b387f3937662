"""How often a point is measured: a fixed number of times, or until it is known well enough."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from runtime.contract.median import CONFIDENCE, median_interval
from runtime.contract.roles import role_of

UNTIL = 0.02
"""How far an interval may reach to either side where a suite does not say, a fraction."""


@dataclass(frozen=True)
class Adaptive:
    """From `least` to `most` repeats, warm-up not counted: no more once the interval of each median reaches at most
    `until` (a fraction) to either side, or `time_s` seconds after the point began."""

    least: int
    most: int
    until: float = UNTIL
    time_s: float | None = None

    @property
    def words(self) -> str:
        """The same for people."""
        time = "" if self.time_s is None else f", for at most {self.time_s:g} s"
        return f"{self.least} to {self.most} repeats, until ± {100 * self.until:g} %{time}"


def counted_operations(operations: Iterable[str], native: bool) -> list[str]:
    """Returns those that have to be known well: of a benchmark of ours what people know it by, if there is any of
    it; of other classes all."""
    operations = list(operations)
    known = [name for name in operations if role_of(name) != "other"]
    return known if native and known else operations


def widest(times: Mapping[str, Iterable[float]]) -> tuple[str, float]:
    """Returns the operation whose median is known least, and how far its interval reaches to either side: a fraction,
    infinite while there are too few values for an interval of 95 %."""
    reaches = {name: _reach(list(values)) for name, values in times.items()}
    name = max(reaches, key=reaches.__getitem__, default="")
    return name, reaches.get(name, float("inf"))


def _reach(values: list[float]) -> float:
    interval = median_interval(values)
    if interval is None or interval.confidence < CONFIDENCE:
        return float("inf")
    ordered, n = sorted(values), len(values)
    middle = (ordered[n // 2] + ordered[(n - 1) // 2]) / 2
    return (interval.high - interval.low) / 2 / middle if middle > 0 else float("inf")
