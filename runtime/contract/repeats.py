"""How often a point is measured: a fixed number of times, or until it is known well enough."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from runtime.contract.findings import Findings, told
from runtime.contract.median import CONFIDENCE, median_interval
from runtime.contract.roles import role_of
from runtime.contract.yamlfile import Entry, Node

REPEATS_KEYS = ("min", "max", "until", "time_s")
ENOUGH = 6
"""The fewest values of which an interval holds the median with at least 95 %."""

_UNTIL = 0.02
_EXAMPLE = 'write repeats: {max: 30, until: "2%"}'
_PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s*%")


@dataclass(frozen=True)
class Adaptive:
    """From `least` to `most` repeats, warm-up not counted: no more once the interval of each median reaches at most
    `until` (a fraction) to either side, or `time_s` seconds after the point began."""

    least: int
    most: int
    until: float = _UNTIL
    time_s: float | None = None

    @property
    def words(self) -> str:
        """The same for people."""
        time = "" if self.time_s is None else f", for at most {self.time_s:g} s"
        return f"{self.least} to {self.most} repeats, until ± {100 * self.until:g} %{time}"


def read_repeats(entries: Mapping[str, Entry], num_repeats: int, found: Findings) -> Adaptive | None:
    """Reads `repeats` of a suite; None where it has none. What Orbax's own runner does, `num_repeats`, is the least."""
    if "repeats" not in entries:
        return None
    node = entries["repeats"].node
    given = found.mapping(node, "repeats", _EXAMPLE)
    if given is None:
        return None
    found.known_keys(given, REPEATS_KEYS, "repeats")
    if "max" not in given:
        found.error(node.place, "repeats has no max", "a noisy machine may never be quiet", _EXAMPLE)
    if "min" in given and "num_repeats" in entries:
        what = "num_repeats and repeats.min are both given"
        found.error(given["min"].place, what, "both say how often at least", "keep one of them")
    least = num_repeats if "num_repeats" in entries else ENOUGH
    least = (found.integer(given["min"].node, "min", 1) if "min" in given else least) or least
    most = found.integer(given["max"].node, "max", 1) if "max" in given else None
    until = _until(given["until"].node, found) if "until" in given else _UNTIL
    time_s = found.seconds(given["time_s"].node, "time_s") if "time_s" in given else None
    if most is not None and most < least:
        what = f"repeats are at most {most} and at least {least}"
        found.error(given["max"].place, what, fix=f"give a max of at least {least}")
    return Adaptive(least, max(most or least, least), until or _UNTIL, time_s)


def _until(node: Node, found: Findings) -> float | None:
    """Reads 2%, or the same as a fraction: 0.02."""
    value = node.value
    match = _PERCENT.fullmatch(value.strip()) if isinstance(value, str) else None
    fraction = float(match[1]) / 100 if match else value
    if isinstance(fraction, float) and 0 < fraction < 1:
        return fraction
    what = f"until must be how far an interval may reach to either side, not {told(value)}"
    found.error(node.place, what, fix="write 2%, or 0.02")
    return None


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
