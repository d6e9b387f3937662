"""What a run adds to the history: a row for each series that it measured, and for each point that it did not. Pure."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from runtime.contract.metrics import describe
from tasks.history.dataset.schema import Row
from tasks.history.fingerprint import canonical, of_machine
from tasks.history.labels import labels
from tasks.history.measurement import Measurement
from tasks.history.results import PointOutcome, Results
from tasks.history.summary import combine_of

MEASURED, FAILED, NOT_RUN, PREEMPTED = "measured", "failed", "not_run", "preempted"
"""What became of a point: only the first has values."""


@dataclass(frozen=True)
class Belonging:
    """What a run's results do not say of it. `night`: the name of the night that it is of; empty: it is its own.

    `track`: which versions it follows. `origin`: where its folder lies. `partial`: it measured some benchmarks of its
    suite alone, among which they have no names of their own.
    """

    track: str
    night: str = ""
    origin: str = ""
    partial: bool = False


def series_id(
    benchmark_key: str, operation: str, metric: str, fingerprint: Mapping[str, str], track: str
) -> str:
    """Returns the name of a series: its operation, and 10 hex digits of all that its runs have in common."""
    head = re.sub(r"[^a-z0-9_]+", "_", operation.lower()).strip("_")[:24]
    return f"{head}-{_digest([benchmark_key, operation, metric, canonical(fingerprint), track])[:10]}"


def machine_id(fingerprint: Mapping[str, str]) -> str:
    """Returns the name of what a fingerprint stands for: its series see the same good and bad nights."""
    return _digest(of_machine(fingerprint))


def rows_of(results: Results, belonging: Belonging) -> list[Row]:
    """Returns all rows of a run. Its times are those that the results tell; where they tell none, zero."""
    common = _common(results, belonging)
    # A label says what a benchmark differs by from the others of its suite: of some alone it would be another one.
    names = (
        dict.fromkeys((one.point for one in results.points), "")
        if belonging.partial
        else labels(results.points)
    )
    return [
        row | common
        for point in results.points
        if not point.prepared
        for row in _of_point(results, point, names[point.point], belonging.track)
    ]


def row_of_nothing(
    run_id: str, suite: str, target: str, began_at: float, cause: str, belonging: Belonging
) -> Row:
    """Returns the row of a run that ended before it had results: it stands for all series of its suite and target."""
    return {
        "run_id": run_id,
        "suite": suite,
        "target": target,
        "began_at": began_at,
        "collected_at": began_at,
        "status": NOT_RUN,
        "cause": cause,
        "night": belonging.night,
        "track": belonging.track,
        "origin": belonging.origin,
    }


def _common(results: Results, belonging: Belonging) -> dict[str, Any]:
    began = results.began_at or results.collected_at or 0.0
    source = results.manifest.get("source")
    commit = source.get("commit") if isinstance(source, Mapping) else None
    versions = {"commit": commit} if commit else {}
    return {
        "night": belonging.night,
        "run_id": results.run_id,
        "began_at": began,
        "collected_at": results.collected_at or began,
        "suite": results.suite,
        "target": results.target,
        "machine": machine_id(results.fingerprint),
        "fingerprint": _plain(canonical(results.fingerprint)),
        "track": belonging.track,
        "versions": _plain({**_mapping(results.manifest.get("versions")), **versions}),
        "origin": belonging.origin,
    }


def _of_point(results: Results, point: PointOutcome, label: str, track: str) -> Iterator[dict[str, Any]]:
    about = {
        "benchmark": point.benchmark,
        "benchmark_key": point.benchmark_key,
        "label": label,
        "generator": point.generator,
        "implementation": point.implementation,
        "definition": _plain(
            {
                "options": dict(point.options),
                "mesh": point.mesh,
                "checkpoint": point.checkpoint,
                "disruption": point.disruption,
            }
        ),
    }
    preempted = {attempt.n for attempt in results.attempts if attempt.end == "preempted"}
    if point.status != "passed":
        yield about | {"status": FAILED if point.status == "failed" else NOT_RUN, "cause": point.cause}
        return
    if point.attempt in preempted:  # what it took while its hardware was taken away is no timing of it
        yield about | {"status": PREEMPTED, "cause": f"attempt {point.attempt} was preempted"}
        return
    measured = [row for one in results.of_point(point.point) if (row := _measured(one))]
    for row in measured:
        key = point.benchmark_key, row["operation"], row["metric"]
        yield about | row | {"series": series_id(*key, results.fingerprint, track)}
    if not measured:
        yield about | {"status": NOT_RUN, "cause": "no operation of it was timed"}


def _measured(measurement: Measurement) -> dict[str, Any] | None:
    """Returns what is kept of a measurement: of each repeat that counts the value of all workers together."""
    if not describe(measurement.metric).headline:
        return None
    values = measurement.combined(combine_of(measurement.unit, measurement.metric))
    if not len(values):
        return None
    return {
        "operation": measurement.operation,
        "metric": measurement.metric,
        "unit": measurement.unit,
        "status": MEASURED,
        "values": values.tolist(),
    }


def _digest(content: object) -> str:
    return hashlib.sha256(_plain(content).encode()).hexdigest()[:12]


def _plain(content: object) -> str:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), default=dict)


def _mapping(found: object) -> Mapping[str, Any]:
    return found if isinstance(found, Mapping) else {}
