"""Lengths of time as people write them: 90s, 30m, 4h, 2d."""

from __future__ import annotations

import re

PATTERN = r"^(\d{1,9}(\.\d+)?s|\d{1,7}(\.\d+)?m|\d{1,6}(\.\d+)?h|\d{1,4}(\.\d+)?d)$"
"""What a field of a form must match."""

_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def seconds(text: str) -> float:
    """Returns the seconds of a length of time that matches PATTERN."""
    if not re.match(PATTERN, text):
        raise ValueError(f"{text!r} is no length of time: write 90s, 30m, 4h or 2d")
    return float(text[:-1]) * _SECONDS[text[-1]]


def in_words(length_s: float) -> str:
    """Returns a length of time in the largest unit that it fills: 4 h, 1.5 h, 90 s."""
    for unit in "dhm":
        if length_s >= _SECONDS[unit]:
            count = length_s / _SECONDS[unit]
            number = f"{count:.0f}" if count >= 1000 else f"{count:.3g}"
            return f"{number} {'min' if unit == 'm' else unit}"
    return f"{length_s:.0f} s"
