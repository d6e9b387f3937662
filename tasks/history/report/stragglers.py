"""What the report says of single workers: who was slowest, how often, by how much. Pure."""

from __future__ import annotations

from tasks.history.labels import labels
from tasks.history.quantities import seconds
from tasks.history.report.lines import Cell
from tasks.history.results import Results
from tasks.history.stragglers import called, hosts_of, lateness, races

RUN_HEADINGS = ("worker", "slowest in", "others waited for it")
OPERATION_HEADINGS = ("operation", "worker", "median", "fastest … slowest", "slowest in", "late by")

MOST_WORKERS = 8
"""Workers of one operation that are shown, the slowest first; all are in samples.parquet."""

MOST_ROWS = 400


def run_rows(results: Results) -> list[tuple[Cell, ...]]:
    """Returns a row for each worker over the whole run, cells as in RUN_HEADINGS."""
    hosts = hosts_of(results)
    return [
        (
            (called(one.worker, hosts), ""),
            (
                f"{one.slowest_in} of {one.occurrences}",
                f"{_share(one.slowest_in, one.occurrences)} of operations",
            ),
            (seconds(one.late_s) if one.late_s else "–", "in all"),
        )
        for one in lateness(results)[: 2 * MOST_WORKERS]
    ]


def operation_rows(results: Results) -> list[tuple[Cell, ...]]:
    """Returns a row for each of the slowest workers of each operation, cells as in OPERATION_HEADINGS."""
    hosts, names, rows = hosts_of(results), labels(results.points), list[tuple[Cell, ...]]()
    for race in races(results):
        straggler = race.straggler
        for place, one in enumerate(race.workers[:MOST_WORKERS]):
            left = len(race.workers) - MOST_WORKERS
            more = f"and {left} faster workers" if place == MOST_WORKERS - 1 and left > 0 else ""
            rows.append(
                (
                    (race.operation, names[race.point]) if place == 0 else ("", ""),
                    (called(one.worker, hosts), "straggler" if one is straggler else more),
                    (seconds(one.median_s), ""),
                    (f"{seconds(one.fastest_s)} … {seconds(one.slowest_s)}", ""),
                    (f"{one.slowest_in} of {race.occurrences}", ""),
                    ("–" if one.late_s is None else seconds(one.late_s), ""),
                )
            )
    return rows[:MOST_ROWS]


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %"
