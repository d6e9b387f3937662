"""Compares a run with earlier ones of the same fingerprint and says what can be said, series by series. Pure.

The rule, in this order:

1. A point that failed or never ran: NOT_RUN.
2. No earlier run of the series: NO_BASELINE.
3. Fewer than `ENOUGH_RUNS` earlier runs: INCONCLUSIVE, with the effect and its interval.
4. Else PASS, if the whole interval of the effect lies within ± the noise floor that the history itself shows
   (see effect.py), and that floor is at most `LARGEST_FLOOR`: a noisier history could hide anything.
5. Else INCONCLUSIVE. Nothing turns red here: that takes a detector that controls false alarms over all series.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from runtime.contract.counting import counted
from runtime.contract.metrics import describe
from tasks.history.effect import ENOUGH_RUNS, Effect, have_ratio, measure_effect
from tasks.history.fingerprint import difference
from tasks.history.intervals import median
from tasks.history.measurement import Measurement
from tasks.history.quantities import plus_minus
from tasks.history.results import PointOutcome, Results
from tasks.history.summary import combine_of
from tasks.history.verdict import SeriesVerdict, Verdict, Verdicts, overall

LARGEST_FLOOR = 0.25
SMALLEST_FLOOR = 0.001
"""A history that never moved still allows this much: clocks and rounding are no regressions."""

MOST_RUNS = 30
"""The latest comparable runs that make a baseline; older ones tell of machines and software long gone."""

_JUDGED_UNITS = ("s", "bytes")
"""Of the headline metrics, those measured as such: throughput and ratios follow from them and would count twice."""

SMALLEST_MEMORY = float(2**20)
"""Less memory than this is compared as this much (and told as it was): below a mebibyte a process grows and shrinks
by chance, down to zero."""

SeriesKey = tuple[str, str, str]
"""(benchmark_key, operation, metric)"""


@dataclass(frozen=True)
class PastRun:
    """What an earlier run adds to the baseline: for each series the observations that count, and their unit."""

    run_id: str
    series: Mapping[SeriesKey, Sequence[float]]
    units: Mapping[SeriesKey, str] = field(default_factory=dict)


def comparable(current: Results, earlier: Sequence[Results]) -> tuple[list[Results], list[str]]:
    """Returns the earlier runs that may be a baseline, latest first, and why the others may not."""
    before = [
        past
        for past in earlier
        if past.run_id != current.run_id
        and past.began_at is not None
        and (current.began_at is None or past.began_at < current.began_at)
    ]
    keys = {point.benchmark_key for point in current.points}
    related = [past for past in before if keys & {point.benchmark_key for point in past.points}]
    reasons: Counter[str] = Counter()
    fit = []
    for past in sorted(related, key=lambda past: past.began_at or 0.0, reverse=True):
        if unequal := difference(current.fingerprint, past.fingerprint):
            reasons[unequal] += 1
        elif not any(_counts(past, point) for point in past.points):
            reasons["no benchmark passed in an attempt that was not preempted"] += 1
        else:
            fit.append(past)
    return fit[:MOST_RUNS], [f"{n} earlier run{'s' * (n > 1)}: {why}" for why, n in reasons.most_common()]


def past_run(results: Results) -> PastRun:
    """Returns what a run adds to the baseline: its passed points, without attempts that were preempted."""
    counting = {point.point for point in results.points if _counts(results, point)}
    judged = {
        (one.benchmark_key, one.operation, one.metric): one
        for one in results.measurements
        if one.point in counting and is_judged(one)
    }
    series = {key: observed for key, one in judged.items() if (observed := _observed(one))}
    return PastRun(results.run_id, series, {key: judged[key].unit for key in series})


def judge(
    current: Results,
    baseline: Sequence[PastRun],
    not_comparable: Sequence[str] = (),
    machine: Sequence[str] = (),
) -> Verdicts:
    """Returns the verdict on every series of the run, and on the run."""
    judged = [point for point in current.points if not point.prepared]
    series = [verdict for point in judged for verdict in _of_point(current, point, baseline)]
    verdict = overall([one.verdict for one in series])
    return Verdicts(
        run_id=current.run_id,
        overall=verdict,
        reason=_reason(verdict, series, current, baseline),
        series=series,
        baseline=[past.run_id for past in baseline],
        not_comparable=list(not_comparable),
        machine=list(machine),
    )


def is_judged(measurement: Measurement) -> bool:
    """Says whether a metric is compared with other runs' at all."""
    return describe(measurement.metric).headline and measurement.unit in _JUDGED_UNITS


def _counts(results: Results, point: PointOutcome) -> bool:
    preempted = {attempt.n for attempt in results.attempts if attempt.end == "preempted"}
    return point.status == "passed" and point.attempt not in preempted


def _observed(measurement: Measurement) -> list[float]:
    return [float(value) for value in measurement.combined(combine_of(measurement.unit, measurement.metric))]


def _of_point(current: Results, point: PointOutcome, baseline: Sequence[PastRun]) -> list[SeriesVerdict]:
    judged = [m for m in current.of_point(point.point) if is_judged(m)] if point.status == "passed" else []
    verdicts = [_of_series(point, measurement, baseline) for measurement in judged if _observed(measurement)]
    if verdicts:
        return verdicts
    reason = point.cause or "no operation of it was timed"
    return [
        SeriesVerdict(point.point, point.benchmark, point.benchmark_key, "", "", "", Verdict.NOT_RUN, reason)
    ]


def _of_series(point: PointOutcome, measurement: Measurement, baseline: Sequence[PastRun]) -> SeriesVerdict:
    key = (measurement.benchmark_key, measurement.operation, measurement.metric)
    least = SMALLEST_MEMORY if measurement.unit == "bytes" else 0.0
    history = [
        past.series[key]
        for past in baseline
        if key in past.series
        and past.units.get(key, measurement.unit) == measurement.unit
        and have_ratio(past.series[key], least)
    ]
    effect = measure_effect(_observed(measurement), history, least) if history else None
    verdict, reason = _verdict(effect, len(history))
    return SeriesVerdict(
        point=point.point,
        benchmark=point.benchmark,
        benchmark_key=point.benchmark_key,
        operation=measurement.operation,
        metric=measurement.metric,
        unit=measurement.unit,
        verdict=verdict,
        reason=reason,
        effect=effect,
        previous_median=median(history[0]) if history else None,
    )


def _verdict(effect: Effect | None, runs: int) -> tuple[Verdict, str]:
    if runs == 0:
        return Verdict.NO_BASELINE, "no earlier run to compare with"
    if effect is None:
        return (
            Verdict.INCONCLUSIVE,
            "some values are zero, negative or infinite: there is no ratio to compare",
        )
    if runs < ENOUGH_RUNS:
        more = ENOUGH_RUNS - runs
        return (
            Verdict.INCONCLUSIVE,
            f"{runs} earlier run{'s' * (runs > 1)}: {more} more until this can be judged",
        )
    if effect.low is None or effect.high is None or effect.noise_floor is None:
        return Verdict.INCONCLUSIVE, "one repeat has no interval"
    within = max(effect.noise_floor, SMALLEST_FLOOR)
    floor = plus_minus(within)
    if within > LARGEST_FLOOR:
        return (
            Verdict.INCONCLUSIVE,
            f"earlier runs reach {floor} without any change: too noisy to judge",
        )
    measured = effect.noise_floor >= SMALLEST_FLOOR
    whose = "that earlier runs reach without any change" if measured else "allowed for clocks and rounding"
    if 1 / (1 + within) - 1 <= effect.low and effect.high <= within:
        return Verdict.PASS, f"within the {floor} {whose}"
    return Verdict.INCONCLUSIVE, f"the interval reaches beyond the {floor} {whose}"


def _reason(
    verdict: Verdict, series: Sequence[SeriesVerdict], current: Results, baseline: Sequence[PastRun]
) -> str:
    if not current.points:
        return "the suite had no benchmarks"
    if all(point.prepared for point in current.points):
        return "it made what others read"
    counts = Counter(one.verdict for one in series)
    if verdict is Verdict.NOT_RUN:
        return current.shortfall or "nothing was timed"
    if verdict is Verdict.NO_BASELINE:
        return "no earlier run to compare with" if not baseline else "some series were never measured before"
    if verdict is Verdict.INCONCLUSIVE:
        most = max((one.effect.baseline_runs for one in series if one.effect), default=0)
        if most < ENOUGH_RUNS:
            return f"compared with {counted(most, 'earlier run')}; {ENOUGH_RUNS} are needed to judge"
        return f"for {counts[verdict]} of {len(series)} series the data cannot tell"
    lie = "lies" if len(series) == 1 else "lie"
    return f"{len(series)} series {lie} within the noise of {counted(len(baseline), 'earlier run')}"
