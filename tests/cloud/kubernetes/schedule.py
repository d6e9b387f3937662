"""Schedules as cron writes them: five fields, or `@hourly` and the like; which minutes they name, in a time zone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

_MACROS = {
    "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}  # fmt: skip
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_RANGES = ((0, 59, ()), (0, 23, ()), (1, 31, ()), (1, 12, _MONTHS), (0, 6, _DAYS))
_FARTHEST = 366 * 5


class Schedule:
    """A schedule."""

    def __init__(self, text: str, zone: str | None = None) -> None:
        """Reads it; ValueError for one that is none, or a time zone that nobody knows."""
        parts = _MACROS.get(text.strip(), text).split()
        if len(parts) != len(_RANGES):
            raise ValueError(f"expected exactly 5 fields, found {len(parts)}: {text}")
        self._allowed = [_field(part, *one) for part, one in zip(parts, _RANGES, strict=True)]
        # Where both days are restricted, either will do: cron's oldest surprise.
        self._either = parts[2][0] not in "*?" and parts[4][0] not in "*?"
        try:
            self._zone = ZoneInfo(zone) if zone else UTC
        except (KeyError, ValueError, OSError) as error:
            raise ValueError(f"unknown time zone {zone}") from error

    def after(self, moment: float) -> float:
        """Returns the first time after a moment, both in seconds since 1970; infinity for a schedule without any."""
        return next(self._from(moment), float("inf"))

    def between(self, moment: float, last: float) -> list[float]:
        """Returns the times after a moment up to and with another."""
        found = []
        for one in self._from(moment):
            if one > last:
                break
            found.append(one)
        return found

    def _from(self, moment: float) -> Iterator[float]:
        minutes, hours, *_ = self._allowed
        day = datetime.fromtimestamp(moment, self._zone).replace(hour=0, minute=0, second=0, microsecond=0)
        for number in range(_FARTHEST):
            today = day + timedelta(days=number)
            if not self._has(today):
                continue
            for hour in sorted(hours):
                for minute in sorted(minutes):
                    at = today.replace(hour=hour, minute=minute).timestamp()
                    if at > moment:
                        yield at

    def _has(self, day: datetime) -> bool:
        _, _, days, months, weekdays = self._allowed
        by_date, by_name = day.day in days, day.isoweekday() % 7 in weekdays
        named = (by_date or by_name) if self._either else (by_date and by_name)
        return day.month in months and named


def _field(text: str, low: int, high: int, names: list[str] | tuple[()]) -> set[int]:
    found: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"([*?]|[0-9a-zA-Z]+)(?:-([0-9a-zA-Z]+))?(?:/(\d+))?", part)
        if match is None:
            raise ValueError(f"failed to parse {part}")
        step = int(match[3] or 1)
        if match[1] in "*?":
            first, last = low, high
        else:
            first = _number(match[1], low, names)
            last = _number(match[2], low, names) if match[2] else high if match[3] else first
        if not low <= first <= last <= high or step < 1:
            raise ValueError(f"{part} is not within {low} to {high}")
        found |= set(range(first, last + 1, step))
    return found


def _number(text: str, low: int, names: list[str] | tuple[()]) -> int:
    if text.lower() in names:
        return names.index(text.lower()) + low
    if not text.isdigit():
        raise ValueError(f"failed to parse int from {text}")
    return int(text)
