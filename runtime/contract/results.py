"""What a measurement is once it is written down: samples and the points they belong to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

SCHEMA_VERSION = 1
"""Version of both records below; readers refuse a newer one and say so."""

SCHEMA_VERSION_KEY = b"slicebench.schema_version"
"""Key of that version in the metadata of a samples file (Parquet)."""

PointStatus = Literal["passed", "failed", "not_run"]


@dataclass(frozen=True)
class Sample:
    """One measured value, never aggregated.

    `repeat` counts from 0 and includes warm-up repeats, which carry `warmup=True`. `occurrence` counts from 0 the
    times the same operation was measured within one repeat. `started_at` is seconds since the epoch, UTC.
    `unit` is one of s, bytes, count, bytes/s, 1 (a ratio).
    """

    run_id: str
    attempt: int
    point: int
    benchmark: str
    benchmark_key: str
    repeat: int
    occurrence: int
    worker: int
    operation: str
    metric: str
    value: float
    unit: str
    warmup: bool
    started_at: float


SAMPLE_COLUMNS: Mapping[str, str] = {
    "run_id": "string",
    "attempt": "int32",
    "point": "int32",
    "benchmark": "string",
    "benchmark_key": "string",
    "repeat": "int32",
    "occurrence": "int32",
    "worker": "int32",
    "operation": "string",
    "metric": "string",
    "value": "float64",
    "unit": "string",
    "warmup": "bool",
    "started_at": "float64",
}
"""Arrow type of each column of a samples file, in order."""


@dataclass(frozen=True)
class PointResult:
    """How one point of a suite went on one worker.

    `options`, `mesh`, `checkpoint` and `disruption` are the effective values in JSON. `implementation`: `native`,
    `orbax` or `user`. `cause` says in one line what went wrong, for a status other than passed; `blamed` is the
    worker that it names, where the supervisors found one that failed the point for all. `stopped` says why there
    were no more repeats, where that was not known before. `paused`: more of the point was to come.
    """

    run_id: str
    attempt: int
    point: int
    worker: int
    benchmark: str
    benchmark_key: str
    generator: str
    implementation: str
    status: PointStatus
    cause: str = ""
    repeats_done: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)
    mesh: Mapping[str, Any] | None = None
    checkpoint: Mapping[str, Any] | None = None
    disruption: Mapping[str, Any] | None = None
    blamed: int | None = None
    stopped: str = ""
    paused: bool = False
