"""What a whole machine was off by, night by night, as lines of text and as an object for programs. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from runtime.contract.counting import counted
from tasks.history.dataset.decision import Decision
from tasks.history.dataset.groups import Group
from tasks.history.dataset.lines import table
from tasks.history.dataset.of_machine import name_of_machine
from tasks.history.quantities import percent, printable


def machine_lines(group: Group, decisions: Sequence[Decision], last: int) -> list[str]:
    """Returns what there is to say of a machine: what it is, its verdict, and the latest nights in which it was off."""
    told = [
        f"{name_of_machine(group.name)}  {group.title}",
        f"what {len(group.members)} series are off by together; {counted(len(group.nights), 'night')}",
    ]
    if not decisions:
        return [*told, "PASS: they were never off together"]
    latest = decisions[-1]
    words = latest.reason if latest.night == group.nights[-1] else f"nothing since {latest.night}"
    told.append(f"{latest.verdict.value if latest.night == group.nights[-1] else 'PASS'}: {words}")
    rows = [
        (one.night, _percent(one.shift), _percent(_expected(one)), one.told, one.verdict.value, one.reason)
        for one in decisions[-last:]
    ]
    headings = ("night", "together", "expected", "change", "verdict", "")
    return [*map(printable, told), "", *table([headings, *rows])]


def machine_object(group: Group, decisions: Sequence[Decision]) -> dict[str, Any]:
    """Returns what `history show --json` says of a machine."""
    return {
        "machine": name_of_machine(group.name),
        "name": group.title,
        "series": sorted(group.members),
        "nights": len(group.nights),
        "decisions": [
            {
                "night": one.night,
                "verdict": one.verdict.value,
                "reason": one.reason,
                "shift": one.shift,
                "shift_again": one.shift_again,
                "expected": _expected(one),
                "effect": one.effect,
                "change": one.told or None,
                "alert_since": one.standing.alert.began if one.standing.alert else None,
            }
            for one in decisions
        ],
    }


def _expected(one: Decision) -> float:
    return (one.level or 1.0) - 1


def _percent(fraction: float | None) -> str:
    return "" if fraction is None or math.isclose(fraction, 0.0, abs_tol=1e-9) else percent(fraction)
