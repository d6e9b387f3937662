"""Numbers as people read them (three digits, a unit that fits), and text that is safe to show them."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tasks.history.intervals import Interval

_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))
_SIZES = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
_NO_UNITS = ("", "1", "count")


def digits(value: float) -> str:
    """Returns three significant digits, without an exponent."""
    size = abs(value)
    places = 0 if size >= 100 else 1 if size >= 10 else 2
    return f"{value:.{places}f}".replace("-", "−")


def seconds(value: float) -> str:
    """Returns a duration, e.g. 12.3 ms, 4.56 s, 3 min 20 s, 2 h 05 min."""
    if value >= 3600:
        return f"{int(value // 3600)} h {int(value % 3600 // 60):02d} min"
    if value >= 100:
        return f"{int(value // 60)} min {int(value % 60):02d} s"
    factor, unit = time_unit(value)
    return f"{digits(value / factor)} {unit}"


def time_unit(value: float) -> tuple[float, str]:
    """Returns the unit that fits a duration in seconds: its size in seconds, and its name."""
    return next(((factor, unit) for factor, unit in _TIMES if abs(value) >= factor), _TIMES[-1])


def size_unit(value: float) -> tuple[float, str]:
    """Returns the binary unit that fits a number of bytes: its size in bytes, and its name."""
    return next(((float(factor), unit) for factor, unit in _SIZES if abs(value) >= factor), (1.0, "B"))


def size(value: float) -> str:
    """Returns a number of bytes in binary units, e.g. 1.50 GiB."""
    factor, unit = size_unit(value)
    return f"{digits(value / factor) if factor > 1 else f'{value:.0f}'} {unit}"


def speed(value: float) -> str:
    """Returns bytes per second in binary units, e.g. 1.50 GiB/s."""
    return f"{size(value)}/s"


def percent(fraction: float) -> str:
    """Returns a signed change, e.g. +3.1 % or −12 %."""
    value = 100 * fraction
    return f"{'−' if value < 0 else '+'}{abs(value):.{0 if abs(value) >= 9.95 else 1}f} %"


def plus_minus(fraction: float) -> str:
    """Returns a reach to both sides, e.g. ± 3.1 %."""
    return f"± {percent(fraction)[1:]}"


def quantity(value: float, unit: str) -> str:
    """Returns a sample's value in the unit it was recorded with."""
    if unit == "s":
        return seconds(value)
    if unit == "bytes":
        return size(value)
    if unit == "bytes/s":
        return speed(value)
    return digits(value) if unit in _NO_UNITS else f"{digits(value)} {unit}"


def between(interval: Interval | None, unit: str) -> str:
    """Returns the ends of an interval, e.g. 1.20–1.35 s, sharing one unit when they can; empty for none."""
    if interval is None:
        return ""
    low, high = quantity(interval.low, unit), quantity(interval.high, unit)
    number, _, name = low.rpartition(" ")
    return f"{number}–{high}" if number and high.endswith(f" {name}") else f"{low} – {high}"


def moment(at: float | None) -> str:
    """Returns a time since the epoch as date and time in UTC; empty for None."""
    if at is None:
        return ""
    return datetime.datetime.fromtimestamp(at, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def printable(text: str) -> str:
    """Returns text without what would steer a terminal: names, causes and logs come from outside."""
    return "".join(
        letter if letter.isprintable() or letter in "\n\t" else "\N{REPLACEMENT CHARACTER}" for letter in text
    )
