"""The part of a worker's log that shows why a point failed. Pure."""

from __future__ import annotations

import itertools
import re

_BEFORE, _AFTER = 40, 50
_STACKS = "most recent call first"
"""How Python's faulthandler begins the stack of a thread."""

_SESSION = re.compile(r"supervisor: session \d+ started at benchmark (\d+)\b")
_WHO = re.compile(r"worker \d+: ")


def excerpt(log: str, cause: str, point: int) -> str:
    """Returns the lines of a point's session around where the cause is last told and its last stack dump; else its end.

    A session that fails ends at the point that failed, so what the log says after it is of other points.
    """
    lines = _session_of(log.splitlines(), point)
    told = _WHO.sub("", cause.strip(), count=1)[:60]
    places = {_last(lines, text) for text in (told, _STACKS) if text} - {None}
    if not places:
        return "\n".join(lines[-_BEFORE:])
    shown: list[int] = []
    for place in sorted(place for place in places if place is not None):
        start = max(0, place - _BEFORE, shown[-1] + 1 if shown else 0)
        shown += range(start, min(len(lines), place + _AFTER))
    gaps = {after for before, after in itertools.pairwise(shown) if after > before + 1}
    return "\n".join(f"…\n{lines[n]}" if n in gaps else lines[n] for n in shown)


def _session_of(lines: list[str], point: int) -> list[str]:
    """Returns what was said in the last session that came to the point; all of it, where no session is marked."""
    starts = [(n, int(found[1]) - 1) for n, line in enumerate(lines) if (found := _SESSION.match(line))]
    inside = [place for place, (_, first) in enumerate(starts) if first <= point]
    if not inside:
        return lines
    following = inside[-1] + 1
    end = starts[following][0] if following < len(starts) else len(lines)
    return lines[starts[inside[-1]][0] : end]


def _last(lines: list[str], text: str) -> int | None:
    return next((n for n in range(len(lines) - 1, -1, -1) if text in lines[n]), None)
