"""Axes: where a value lies on a drawing, and which round numbers stand below it. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tasks.history.quantities import size_unit, time_unit


@dataclass(frozen=True)
class Tick:
    """A line across the drawing at `x` with a number under it."""

    x: float
    text: str


@dataclass(frozen=True)
class Axis:
    """Maps values from `low` to `high` onto `left` to `right` (pixels); what lies outside is drawn at the edge."""

    low: float
    high: float
    left: float
    right: float
    ticks: Sequence[Tick]
    unit: str

    def x(self, value: float) -> float:
        """Returns where the value is drawn."""
        share = (value - self.low) / (self.high - self.low) if self.high > self.low else 0.0
        return round(self.left + min(max(share, 0.0), 1.0) * (self.right - self.left), 1)

    def beyond(self, value: float) -> bool:
        """Says whether the value lies to the right of the axis."""
        return value > self.high * (1 + 1e-9)


def axis_from_zero(largest: float, unit: str, left: float, right: float) -> Axis:
    """Returns an axis from zero to a little more than `largest`, ticks in the unit that fits; unit is s or bytes."""
    largest = largest if largest > 0 else 1.0
    factor, name = time_unit(largest) if unit == "s" else size_unit(largest)
    return _axis(0.0, largest * 1.06, factor, name, left, right, signed=False)


def axis_between(low: float, high: float, unit: str, left: float, right: float) -> Axis:
    """Returns an axis from `low` to `high`, ticks in the unit that fits; unit is that of samples."""
    largest = max(abs(low), abs(high))
    factor, name = (
        time_unit(largest) if unit == "s" else size_unit(largest) if unit.startswith("bytes") else (1.0, unit)
    )
    name = f"{name}/s" if unit == "bytes/s" else name
    return _axis(low, high, factor, name, left, right, signed=False)


def axis_of_change(low: float, high: float, left: float, right: float) -> Axis:
    """Returns an axis of fractions, told in percent, that shows both ends and zero."""
    reach = max(abs(low), abs(high), 0.02)
    low, high = min(low, -0.25 * reach) - 0.05 * reach, max(high, 0.25 * reach) + 0.05 * reach
    low = max(low, -1.0)  # nothing becomes less than nothing
    return _axis(low, high, 0.01, "%", left, right, signed=True)


def _axis(
    low: float, high: float, factor: float, unit: str, left: float, right: float, *, signed: bool
) -> Axis:
    bare = Axis(low, high, left, right, (), unit)
    step = _round_step((high - low) / factor / 5)
    first, last = math.ceil(low / factor / step), math.floor(high / factor / step)
    places = max(0, -math.floor(math.log10(step)))
    ticks = []
    for n in range(first, last + 1):
        value = n * step
        sign = "+" if signed and value > 0 else "−" if value < 0 else ""
        ticks.append(Tick(bare.x(value * factor), f"{sign}{abs(value):.{places}f}"))
    return Axis(low, high, left, right, ticks, unit)


def _round_step(rough: float) -> float:
    """Returns the smallest of 1, 2, 5 times a power of ten that is at least `rough`."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * digit for digit in (1, 2, 5, 10) if power * digit >= rough * (1 - 1e-9))
