"""What moments are called: the names of nights that have none, and months. Pure."""

from __future__ import annotations

import datetime
import math


def moment_name(at: float) -> str:
    """Returns a time as the name of a night: names sort as their times do, and beside dates."""
    if not is_a_time(at):
        return f"{at}"
    return f"{datetime.datetime.fromtimestamp(at, datetime.UTC):%Y-%m-%dT%H:%M:%SZ}"


def month_of(at: float) -> str:
    """Returns the month of a time, 2026-11; `unknown` for what is no time."""
    if not is_a_time(at) or at == 0:
        return "unknown"
    return f"{datetime.datetime.fromtimestamp(at, datetime.UTC):%Y-%m}"


def is_a_time(at: float) -> bool:
    """Says whether a number can be seconds since the epoch of a year with four digits."""
    return math.isfinite(at) and 0 <= at < 253402300800
