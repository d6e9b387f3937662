"""Cloud Monitoring: what GKE wrote of the accelerators of a workload's containers, as values over time.

GKE samples each minute, and shows a value some two minutes later, as Google's list of metrics says.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from tasks.cloud.container_errors import Unanswered, Unavailable
from tasks.cloud.google_rest import Document, Rest
from tasks.cloud.timing import Timing

API = "monitoring.googleapis.com"
LATE_S = 240.0
"""How long after it was so a value may still be missing: two minutes by the list, and as much again."""

METRICS: Mapping[str, tuple[str, str]] = {
    "duty_cycle_percent": ("kubernetes.io/container/accelerator/duty_cycle", "ALIGN_MEAN"),
    "memory_used_bytes": ("kubernetes.io/container/accelerator/memory_used", "ALIGN_MAX"),
    "memory_total_bytes": ("kubernetes.io/container/accelerator/memory_total", "ALIGN_MAX"),
}
"""Our name, as in what supervisors sample → Google's, and how several values become one."""

_SAMPLED_S = 60
_MOST_VALUES = 240
"""Of one accelerator: a run of days is told in longer steps, not in a hundred megabytes."""
_PAGE = 2000
"""Series that one answer has at most."""


@dataclass(frozen=True)
class Watched:
    """A workload in a cluster of GKE: the pods whose names begin with its own."""

    project: str
    location: str
    cluster: str
    namespace: str
    workload: str


@dataclass(frozen=True)
class Series:
    """One metric of one accelerator of a container; `values` are (seconds since the epoch, value), oldest first."""

    metric: str
    pod: str
    container: str
    accelerator: str
    values: Sequence[tuple[float, float]]


def series_of(watched: Watched, begin: float, end: float, timing: Timing, limit_s: float) -> list[Series]:
    """Returns all there is of a workload between two times.

    Raises ContainerError, also when it takes longer, or what is answered cannot be read.
    """
    until = time.monotonic() + limit_s
    return [one for metric in METRICS for one in _of_metric(watched, metric, (begin, end), timing, until)]


def _of_metric(
    watched: Watched, metric: str, between: tuple[float, float], timing: Timing, until: float
) -> Iterator[Series]:
    kind, aligner = METRICS[metric]
    begin, end = between
    steps = max(1, -(-int(end - begin) // (_SAMPLED_S * _MOST_VALUES)))
    query = {
        "filter": _filter(watched, kind),
        "interval.startTime": _written(begin),
        "interval.endTime": _written(end),
        "aggregation.alignmentPeriod": f"{steps * _SAMPLED_S}s",
        "aggregation.perSeriesAligner": aligner,
        "pageSize": _PAGE,
    }
    path = f"v3/projects/{watched.project}/timeSeries?{urlencode(query)}"
    doing = f"read {metric} of {watched.workload}"
    for page in Rest(API, timing=timing).pages(doing, path):
        yield from _read_page(metric, page, doing)
        if time.monotonic() >= until:
            raise Unavailable(f"cannot {doing}: it takes longer than is waited for it")


def _read_page(metric: str, page: Document, doing: str) -> list[Series]:
    """Returns what a page tells. Of a document that is none nothing is known: each of its parts may be anything."""
    try:
        return [_series(metric, one) for one in page.get("timeSeries", ())]
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        what = f"{type(error).__name__}: {error}"
        raise Unanswered(f"cannot {doing}: {API} answered what cannot be read ({what})") from error


def _filter(watched: Watched, kind: str) -> str:
    named = {
        "location": watched.location,
        "cluster_name": watched.cluster,
        "namespace_name": watched.namespace,
    }
    return " AND ".join(
        (
            f'metric.type = "{kind}"',
            'resource.type = "k8s_container"',
            *(f'resource.labels.{name} = "{value}"' for name, value in named.items()),
            f'resource.labels.pod_name = starts_with("{watched.workload}-")',
        )
    )


def _series(metric: str, told: Document) -> Series:
    resource, labels = told["resource"]["labels"], told.get("metric", {}).get("labels", {})
    values = [(_read(one["interval"]["endTime"]), _value(one["value"])) for one in told.get("points", ())]
    return Series(
        metric,
        str(resource["pod_name"]),
        str(resource.get("container_name", "")),
        str(labels.get("accelerator_id", "")),
        sorted(values),
    )


def _value(told: Mapping[str, Any]) -> float:
    return float(told.get("doubleValue", told.get("int64Value", 0)))


def _written(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _read(at: str) -> float:
    return datetime.fromisoformat(at.replace("Z", "+00:00")).timestamp()
