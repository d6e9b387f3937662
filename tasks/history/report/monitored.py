"""What the report says of accelerators by Cloud Monitoring: how busy they were, and how full. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tasks.history.quantities import size
from tasks.history.report.lines import Cell

HEADINGS = ("pod", "accelerators", "busy", "most memory")

_Rows = dict[tuple[int, str], dict[str, dict[str, list[float]]]]


def monitored_rows(told: Mapping[str, Any]) -> list[tuple[Cell, ...]]:
    """Returns a row for each pod of each attempt, cells as in HEADINGS; see tasks/stages/monitored.py."""
    rows: _Rows = {}
    for attempt, pod, accelerator, metric, values in _series(told):
        rows.setdefault((attempt, pod), {}).setdefault(accelerator, {})[metric] = values
    return [_row(attempt, pod, seen) for (attempt, pod), seen in sorted(rows.items())]


def note(told: Mapping[str, Any]) -> str:
    """Returns what is to be known of the rows; empty: nobody asked."""
    if not told:
        return ""
    if why := told.get("why"):
        return f"Nothing is known of them: {why}."
    words = "As GKE samples them each minute: the share of time in which they computed, and their memory."
    if not told.get("series"):
        words = "There is nothing of them: too short a run, or a cluster without system metrics."
    if told.get("whole"):
        return words
    return f"{words} It shows minutes late, so what came last may be missing: `slicebench report` brings it."


def _series(told: Mapping[str, Any]) -> Iterator[tuple[int, str, str, str, list[float]]]:
    """Yields what can be read: the report does not fail for what stands beside a run's results."""
    series = told.get("series")
    for one in series if isinstance(series, list) else ():
        try:
            values = [float(value) for _, value in one["values"]]
            named = int(one["attempt"]), str(one["pod"]), str(one["accelerator"]), str(one["metric"])
        except (KeyError, TypeError, ValueError):
            continue
        if values:
            yield *named, values


def _row(attempt: int, pod: str, seen: Mapping[str, Mapping[str, list[float]]]) -> tuple[Cell, ...]:
    busy = [value for one in seen.values() for value in one.get("duty_cycle_percent", ())]
    used = [value for one in seen.values() for value in one.get("memory_used_bytes", ())]
    total = [value for one in seen.values() for value in one.get("memory_total_bytes", ())]
    return (
        (pod, f"attempt {attempt}"),
        (str(len(seen)), ""),
        (f"{sum(busy) / len(busy):.0f} %", f"at most {max(busy):.0f} %") if busy else ("–", ""),
        (f"{size(max(used))} on one", f"of {size(max(total))}" if total else "") if used else ("–", ""),
    )
