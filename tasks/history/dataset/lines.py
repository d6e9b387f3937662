"""Series and their nights as lines of text, and as objects for programs. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from runtime.contract.counting import counted
from tasks.history.dataset.recorded import Hole, Recorded, Records, Seen, middle
from tasks.history.detection.baseline import baseline_of
from tasks.history.detection.evidence import before
from tasks.history.quantities import percent, plus_minus, printable, quantity

_HEADINGS = ("series", "what", "track", "on", "nights", "last night", "latest")


def list_lines(series: Sequence[Recorded]) -> list[str]:
    """Returns a table of series; nothing for none."""
    return table([_HEADINGS, *(_row(one) for one in series)]) if series else []


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Returns rows as lines whose columns stand below each other, without what would steer a terminal."""
    clean = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in clean) for column in range(len(clean[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in clean
    ]


def show_lines(records: Records, one: Recorded, last: int) -> list[str]:
    """Returns what there is to say of a series, and its latest nights."""
    seen, holes = records.seen(one.id), records.holes(one)
    told = [f"{one.id}  {one.name}", f"on {machine_words(one)}; {one.about['track']}", _counts(one, holes)]
    if level := _level(one):
        told.append(level)
    nights: list[Seen | Hole] = sorted([*seen, *holes], key=lambda found: (found.night, found.began_at))
    rows = [_night(found) for found in nights[-last:]]
    return [
        *(printable(line) for line in told),
        "",
        *table([("night", "median", "repeats", "run", ""), *rows]),
    ]


def machine_words(one: Recorded) -> str:
    """Returns what a series runs on, in a few words."""
    told = one.fingerprint
    kind = told.get("device_kind") or told.get("platform", "unknown")
    workers = told.get("workers", "unknown")
    slices = f", {told['slices']} slices" if told.get("slices", "1") not in ("1", "unknown") else ""
    return f"{kind}, {workers} × {told.get('devices', 'unknown')} devices{slices}, {told.get('storage', 'unknown')}"


def series_object(one: Recorded) -> dict[str, Any]:
    """Returns what `history list --json` says of a series."""
    about = one.about
    names = ("suite", "target", "benchmark", "benchmark_key", "label", "operation", "metric", "unit", "track")
    return {
        "series": one.id,
        "name": one.name,
        **{name: about[name] for name in names},
        "fingerprint": dict(one.fingerprint),
        "definition": json.loads(about["definition"] or "null"),
        "nights": len(one.nights),
        "set_aside": one.set_aside,
        "last_night": one.nights[-1].name if one.nights else None,
        "latest": one.latest,
    }


def shown_object(records: Records, one: Recorded) -> dict[str, Any]:
    """Returns what `history show --json` says: the series, each run of it, and the holes."""
    runs = [
        {
            "night": seen.night,
            "run_id": seen.run_id,
            "began_at": seen.began_at,
            "median": middle(seen.values) if seen.run else None,
            "values": [value if math.isfinite(value) else None for value in seen.values],
            "unit": seen.unit,
            "versions": dict(seen.versions),
            "set_aside": seen.aside or None,
        }
        for seen in records.seen(one.id)
    ]
    return {**series_object(one), "runs": runs, "holes": [vars(hole) for hole in records.holes(one)]}


def value_of(centre: float) -> float:
    """Returns the value whose logarithm a run's centre is."""
    return math.exp(centre)


def _row(one: Recorded) -> tuple[str, ...]:
    latest = "–" if one.latest is None else quantity(one.latest, one.about["unit"])
    last = one.nights[-1].name if one.nights else "–"
    return (one.id, one.name, one.about["track"], machine_words(one), str(len(one.nights)), last, latest)


def _counts(one: Recorded, holes: Sequence[Hole]) -> str:
    told = [counted(len(one.nights), "night")]
    if one.nights:
        told[0] += f", {one.nights[0].name} to {one.nights[-1].name}"
    if one.set_aside:
        told.append(f"{counted(one.set_aside, 'run')} set aside")
    if holes:
        told.append(f"{counted(len(holes), 'run')} without a value")
    return "; ".join(told)


def _level(one: Recorded) -> str:
    baseline = baseline_of(before(one.series)) if one.nights else None
    if baseline is None:
        return "no baseline yet: it takes eight nights"
    unit, latest = one.about["unit"], one.nights[-1].settled.centre
    level = quantity(value_of(baseline.centre), unit)
    scatter = plus_minus(math.expm1(math.sqrt(baseline.variance)))
    off = percent(math.expm1(latest - baseline.centre))
    nights = counted(baseline.nights, "night")
    return f"level {level}, of {nights} that scatter by {scatter}; the latest is {off} off it"


def _night(found: Seen | Hole) -> tuple[str, ...]:
    if isinstance(found, Hole):
        status = found.status.replace("_", " ")
        return (found.night, "–", "", found.run_id, f"{status}: {found.cause}" if found.cause else status)
    median = quantity(middle(found.values), found.unit) if found.run else "–"
    aside = (
        f"set aside: {found.aside}"
        if found.aside
        else ""
        if found.run
        else "no value of it is a positive number"
    )
    return (found.night, median, str(len(found.values)), found.run_id, aside)
