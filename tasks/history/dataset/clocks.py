"""Which runs were made by a clock that was wrong, and how that shows. Pure."""

from __future__ import annotations

from tasks.history.dataset.moments import moment_name

FIRST_TIME = 1420070400.0
"""2015: whatever claims to be older was written by a machine whose clock was never set."""

_AHEAD_S = 86400.0
"""Seconds after now from which on a run's clock is taken to be wrong: machines' clocks differ a little."""

BACK_S = 3600.0
"""A run may be collected so long before it began, for the same reason."""


def latest_time(now: float) -> float:
    """Returns the time after which no run can have begun."""
    return now + _AHEAD_S


def why_wrong(began: float, collected: float, now: float) -> str:
    """Returns how the clock of a run shows that it was wrong."""
    told = f"it began {moment_name(began)}"
    if began > latest_time(now):
        return f"{told}, which is still to come"
    if began >= FIRST_TIME:
        return f"it was collected {moment_name(collected)}, before it began {moment_name(began)}"
    return told
