"""The part of a worker's log that shows why a point failed. Pure."""

from __future__ import annotations

_BEFORE, _AFTER = 40, 50
_STACKS = "most recent call first"
"""How Python's faulthandler begins the stack of a thread."""


def excerpt(log: str, cause: str) -> str:
    """Returns the lines around where the log last tells the cause, else its last stack dump, else its end."""
    lines = log.splitlines()
    told = cause.strip()[:60]
    place = _last(lines, told) if told else None
    if place is None:
        place = _last(lines, _STACKS)
    if place is None:
        return "\n".join(lines[-_BEFORE:])
    return "\n".join(lines[max(0, place - _BEFORE) : place + _AFTER])


def _last(lines: list[str], text: str) -> int | None:
    return next((n for n in range(len(lines) - 1, -1, -1) if text in lines[n]), None)
