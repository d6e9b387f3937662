"""The results as numbers for programs, in seconds, bytes and fractions: what `slicebench report --json` prints. Pure.

docs/results.md describes each name. They are added to, and neither renamed nor given another meaning.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tasks.history import changes
from tasks.history.columns import peak_memory, standing, whole_save
from tasks.history.intervals import median
from tasks.history.labels import labels
from tasks.history.limits import Known, beyond, share_of, together
from tasks.history.results import PointOutcome, Results
from tasks.history.stragglers import Race, races
from tasks.history.summary import OperationSummary, combine_of, summarize_passed
from tasks.history.verdict import SeriesVerdict, Verdicts

Figures = dict[str, Any]
"""A JSON object; None where there is no number."""


def run_figures(results: Results, verdicts: Verdicts) -> Figures:
    """Returns the run's verdict, and what each of its points gave; figures of those that passed."""
    summaries, names = summarize_passed(results), labels(results.points)
    known, points = together(results), []
    workers = {(race.point, race.operation): race for race in races(results)}
    for point in results.points:
        series = [one for one in verdicts.series if one.point == point.point and one.metric]
        points.append(
            {
                **_point(point, names[point.point], summaries[point.point], verdicts, known, workers),
                "series": [_series(one, _median(results, one)) for one in series],
            }
        )
    return {
        "run_id": results.run_id,
        "suite": results.suite,
        "target": results.target,
        "verdict": verdicts.of_run(results),
        "reason": verdicts.reason,
        "baseline": list(verdicts.baseline),
        "machine": [*verdicts.machine, *beyond(results)],
        "limits": {f"{name}_bytes_per_s": max(passes) for name, passes in known.items()},
        "points": points,
    }


def no_figures(run_id: str) -> Figures:
    """Returns what there is to say, under the same names, of a run whose results are gone."""
    unknown: Figures = dict.fromkeys(("suite", "target", "verdict", "reason"))
    return {"run_id": run_id, **unknown, "baseline": [], "machine": [], "limits": {}, "points": []}


def _point(
    point: PointOutcome,
    label: str,
    operations: list[OperationSummary],
    verdicts: Verdicts,
    known: Known,
    workers: Mapping[tuple[int, str], Race],
) -> Figures:
    return {
        "point": point.point,
        "label": label,
        "benchmark": point.benchmark,
        "benchmark_key": point.benchmark_key,
        "generator": point.generator,
        "implementation": point.implementation,
        "status": point.status,
        "verdict": standing(point, verdicts),
        "cause": point.cause or None,
        "attempt": point.attempt,
        "stopped": point.stopped or None,
        "save_until_safe_bytes_per_s": _number(whole_save(operations)),
        "peak_memory_over_start_bytes": _number(peak_memory(operations)),
        "operations": [
            _operation(one, known, workers.get((point.point, one.operation))) for one in operations
        ],
    }


def _operation(one: OperationSummary, known: Known, race: Race | None) -> Figures:
    time, interval, share = one.time, one.time.interval, share_of(one, known)
    return {
        "operation": one.operation,
        "role": one.role,
        "repeats": time.n,
        "warmups": time.warmups,
        "median_s": _number(time.median),
        "interval_low_s": _number(interval.low if interval else None),
        "interval_high_s": _number(interval.high if interval else None),
        "interval_confidence": _number(interval.confidence if interval else None),
        "fastest_s": _number(time.smallest),
        "slowest_s": _number(time.largest),
        "payload_bytes": _number(one.payload_bytes),
        "payload_bytes_per_s": _number(one.bytes_per_s),
        "limit": share.limit if share else None,
        "share_of_limit": _number(share.share if share else None),
        "measuring_s": _number(one.measuring_s),
        "cached_share": _number(one.cached),
        "peak_memory_over_start_bytes": _number(one.memory_bytes),
        "slowest_worker": one.slowest,
        "slowest_worker_over_usual": _number(one.straggle),
        "straggler": race.straggler.worker if race and race.straggler else None,
        "workers": [vars(worker) for worker in race.workers] if race else [],
    }


def _series(one: SeriesVerdict, now: float | None) -> Figures:
    effect = one.effect
    return {
        "operation": one.operation,
        "metric": one.metric,
        "unit": one.unit,
        "verdict": one.verdict.value,
        "reason": one.reason,
        "median": _number(now),
        "previous_median": _number(one.previous_median),
        "baseline_median": _number(effect.baseline_median if effect else None),
        "baseline_runs": effect.baseline_runs if effect else 0,
        "change": _number(effect.effect if effect else None),
        "change_low": _number(effect.low if effect else None),
        "change_high": _number(effect.high if effect else None),
        "change_words": changes.change(effect) if effect else None,
        "interval_words": (changes.interval(effect) or None) if effect else None,
        "noise_of_runs": _number(effect.noise_floor if effect else None),
        "compared_from": _number(effect.least if effect else None),
    }


def _median(results: Results, series: SeriesVerdict) -> float | None:
    """Returns the median of the run's own repeats, whether or not there is anything to compare it with."""
    for one in results.of_point(series.point):
        if (one.operation, one.metric) == (series.operation, series.metric):
            values = one.combined(combine_of(one.unit, one.metric))
            return median(values) if len(values) else None
    return None


def _number(value: float | None) -> float | None:
    """Returns what JSON has a number for: neither nan nor infinity."""
    return value if value is not None and math.isfinite(value) else None
