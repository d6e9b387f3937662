"""From samples to the few numbers people look at: how long an operation took, how fast, how much memory. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from runtime.contract.generators import find
from runtime.contract.metrics import CACHED, MEASURING, THROUGHPUT, TIME
from runtime.contract.roles import Role, role_of
from tasks.history.intervals import Interval, median, median_interval
from tasks.history.measurement import Combine, Measurement
from tasks.history.results import PointOutcome, Results

PAYLOAD = "payload_bytes"
PEAK_MEMORY = ("peak_rss_over_start_bytes", "sampled_peak_rss_over_start_bytes")
"""Most resident memory over that at the operation's start; the first that was measured is taken."""


def is_shown(operation: str, point: PointOutcome) -> bool:
    """Says whether an operation belongs among the results: all that a user's class times, and of a benchmark of ours
    what people know it by; the rest is under every sample."""
    if role_of(operation) != "other" or point.implementation != "native":
        return True
    known = find(point.generator)
    return known is not None and known.is_known_by(operation)


def combine_of(unit: str, metric: str) -> Combine:
    """Says how workers' values become the run's: the slowest and fullest worker counts, work done adds up."""
    if unit == "bytes":
        return "max" if "peak" in metric or "start" in metric else "sum"
    return "sum" if unit in ("count", "bytes/s") else "max"


@dataclass(frozen=True)
class Statistics:
    """Of what was not warm-up. `interval` is that of the median; None for a single observation."""

    n: int
    warmups: int
    median: float
    interval: Interval | None
    smallest: float
    largest: float


@dataclass(frozen=True)
class OperationSummary:
    """One operation of one point. Times in seconds: of each repeat that of the slowest worker.

    `bytes_per_s` is the payload of all workers over the median time until all was moved, in the background
    too. `memory_bytes` is the largest peak over start of any worker in any repeat, and `payload_per_worker`
    the bytes that the fullest worker moved. `straggle` is the slowest worker's median over the median of all
    workers' medians, and `slowest` that worker; None for one worker. `measuring_s` is what recorder and collectors took
    around it, of which nothing is in `time`: the median, of the
    worker on which it took longest. `cached` is the part of what was read that was in the page cache when it began.
    """

    point: int
    operation: str
    role: Role
    time: Statistics
    payload_bytes: float | None
    bytes_per_s: float | None
    memory_bytes: float | None
    payload_per_worker: float | None
    straggle: float | None
    slowest: int | None
    measuring_s: float | None = None
    cached: float | None = None


def statistics(values: NDArray[np.float64], warmups: int) -> Statistics | None:
    """Returns the statistics of what was observed; None when nothing was."""
    if len(values) == 0:
        return None
    return Statistics(
        n=len(values),
        warmups=warmups,
        median=median(values),
        interval=median_interval(values),
        smallest=float(values.min()),
        largest=float(values.max()),
    )


def summarize(measurements: Sequence[Measurement]) -> list[OperationSummary]:
    """Returns a summary per point and operation that was timed in a repeat that counts, in order of measuring."""
    found: dict[tuple[int, str], dict[str, Measurement]] = {}
    for measurement in measurements:
        found.setdefault((measurement.point, measurement.operation), {})[measurement.metric] = measurement
    summaries = (_summary(metrics) for metrics in found.values() if TIME in metrics)
    return [summary for summary in summaries if summary is not None]


def summarize_results(results: Results) -> Mapping[int, list[OperationSummary]]:
    """Returns the summaries of each point, by point."""
    by_point: dict[int, list[OperationSummary]] = {point.point: [] for point in results.points}
    for summary in summarize(results.measurements):
        by_point.setdefault(summary.point, []).append(summary)
    return by_point


def summarize_passed(results: Results) -> Mapping[int, list[OperationSummary]]:
    """Does the same for the points that passed; of any other it says nothing.

    What a point took as far as it came is no result: it stands with that point's samples, never beside results.
    """
    passed = {point.point for point in results.points if point.status == "passed"}
    return {point: found if point in passed else [] for point, found in summarize_results(results).items()}


def _summary(metrics: Mapping[str, Measurement]) -> OperationSummary | None:
    time = metrics[TIME]
    statistic = statistics(time.combined("max"), int(time.warmup.sum()))
    if statistic is None:
        return None
    payload = metrics.get(PAYLOAD)
    total = None if payload is None else _median_or_none(payload.combined("sum"))
    memory = next((metrics[name] for name in PEAK_MEMORY if name in metrics), None)
    straggle, slowest = stragglers(time)
    cost, cached = metrics.get(MEASURING), metrics.get(CACHED)
    return OperationSummary(
        point=time.point,
        operation=time.operation,
        role=role_of(time.operation),
        time=statistic,
        payload_bytes=total,
        bytes_per_s=_rate(metrics),
        memory_bytes=None if memory is None else _largest_or_none(memory.combined("max")),
        payload_per_worker=None if payload is None else _largest_or_none(payload.combined("max")),
        straggle=straggle,
        slowest=slowest,
        cached=None if cached is None else _median_or_none(cached.combined("max")),
        measuring_s=None if cost is None else _median_or_none(cost.combined("max")),
    )


def _rate(metrics: Mapping[str, Measurement]) -> float | None:
    """Returns the payload of all workers over the median time of the slowest, from payload and throughput of each."""
    payload, throughput = metrics.get(PAYLOAD), metrics.get(THROUGHPUT)
    if payload is None or throughput is None or payload.values.shape != throughput.values.shape:
        return None
    seconds = replace(throughput, values=payload.values / throughput.values)
    total, took = _median_or_none(payload.combined("sum")), _median_or_none(seconds.combined("max"))
    return total / took if total and took else None


def worker_medians(measurement: Measurement) -> NDArray[np.float64]:
    """Returns each worker's own median, shape (workers,); NaN for a worker without a value that counts."""
    counted = measurement.values[~measurement.warmup]
    return np.asarray(
        [
            np.median(column[~np.isnan(column)]) if (~np.isnan(column)).any() else np.nan
            for column in counted.T
        ]
    )


def stragglers(time: Measurement) -> tuple[float | None, int | None]:
    """Returns how much slower than the usual worker the slowest is (a ratio, from 1), and which it is."""
    medians = worker_medians(time)
    known = ~np.isnan(medians)
    if known.sum() < 2:
        return None, None
    usual = float(np.median(medians[known]))
    place = int(np.nanargmax(medians))
    return (float(medians[place]) / usual if usual > 0 else None), int(time.workers[place])


def _median_or_none(values: NDArray[np.float64]) -> float | None:
    return median(values) if len(values) else None


def _largest_or_none(values: NDArray[np.float64]) -> float | None:
    return float(values.max()) if len(values) else None
