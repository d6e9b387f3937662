"""What benchmarks found out themselves, beside times and memory: a slowdown, a leak, what a late worker costs. Pure."""

from __future__ import annotations

import numpy as np

from runtime.contract.metrics import METRICS
from tasks.history.intervals import median
from tasks.history.labels import labels
from tasks.history.quantities import quantity
from tasks.history.results import Results

FOUND = ("slowdown", "held_up_s", "deletion_s", "growth_bytes_per_cycle", "still_written_s")
"""Metrics that are what a benchmark is for."""


def found_lines(results: Results) -> list[str]:
    """Returns a line for each of them and each point that passed: the median of the repeats that count, of each that of
    the worker with most."""
    passed = {point.point for point in results.points if point.status == "passed"}
    names = labels(results.points)
    lines = []
    for one in results.measurements:
        if one.metric not in FOUND or one.point not in passed:
            continue
        values = one.values[~one.warmup]
        values = values[~np.isnan(values).all(axis=1)]  # some tell it on the workers that it happened to
        if len(values):
            told = quantity(median(np.nanmax(values, axis=1)), one.unit)
            meaning = METRICS[one.metric].description
            lines.append(f"{names[one.point]}: {one.metric} of {one.operation}: {told} ({meaning})")
    return lines
