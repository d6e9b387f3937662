"""What a run gave, once collected: points, what is missing, and where it ran. Written as points.json."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from runtime.contract.errors import InfrastructureError
from runtime.contract.generators import find
from runtime.contract.record import record_of
from runtime.contract.results import SCHEMA_VERSION, PointStatus

if TYPE_CHECKING:
    from tasks.history.measurement import Measurement

SAMPLES_FILE = "samples.parquet"
POINTS_FILE = "points.json"

TroubleKind = Literal["missing", "damaged", "newer_schema", "duplicate", "not_run", "not_fetched"]


@dataclass(frozen=True)
class Trouble:
    """Something that collect found missing or damaged, as one sentence for people.

    `missing`: results that never arrived; `damaged`: a file that cannot be read whole; `newer_schema`:
    written by a newer slicebench; `duplicate`: the same sample twice; `not_run`: nobody ran the point;
    `not_fetched`: results that lie where workers wrote them and could not be brought here.
    """

    kind: TroubleKind
    what: str
    attempt: int | None = None
    worker: int | None = None


@dataclass(frozen=True)
class WorkerPoint:
    """How a point went on one worker; `blamed` is the worker that the cause names, if it names one."""

    worker: int
    status: PointStatus
    cause: str = ""
    blamed: int | None = None
    repeats_done: int = 0


@dataclass(frozen=True)
class PointOutcome:
    """How a point went on all workers: passed only if it passed on every one of them.

    `attempt` is the attempt whose samples count; None when no attempt ran it. `cause` is one line.
    `stopped` says why there were no more repeats, where that was to be seen.
    """

    point: int
    benchmark: str
    benchmark_key: str
    generator: str
    implementation: str
    status: PointStatus
    cause: str = ""
    attempt: int | None = None
    workers: Sequence[WorkerPoint] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    mesh: Mapping[str, Any] | None = None
    checkpoint: Mapping[str, Any] | None = None
    disruption: Mapping[str, Any] | None = None
    stopped: str = ""

    @property
    def prepared(self) -> bool:
        """Says whether it made what others of its suite read: once, so that there is nothing to compare."""
        known = find(self.generator) if self.status == "passed" else None
        return known is not None and known.prepares


@dataclass(frozen=True)
class AttemptEnd:
    """One start of the workload and how it ended."""

    n: int
    end: str
    cause: str = ""


@dataclass(frozen=True)
class Results:
    """Everything collect knows of a run. `measurements` are made from samples.parquet and not stored in
    points.json.

    `left_out` says, a line for each reason, which points of the suite do not fit the target, and why.
    `limits` is what each worker's machine could do at best, with `worker` and `host`.
    `fingerprint` is what must be equal for two numbers to be comparable. `manifest` is that of the lowest
    worker. Seconds since the epoch: `asked_at` when the run was asked for, `started_at` when the first sample
    was taken; None: not known.
    """

    run_id: str
    suite: str
    target: str
    workers: int
    points: Sequence[PointOutcome]
    troubles: Sequence[Trouble] = ()
    attempts: Sequence[AttemptEnd] = ()
    fingerprint: Mapping[str, str] = field(default_factory=dict)
    manifest: Mapping[str, Any] = field(default_factory=dict)
    samples: int = 0
    asked_at: float | None = None
    started_at: float | None = None
    collected_at: float | None = None
    measurements: Sequence[Measurement] = ()
    left_out: Sequence[str] = ()
    limits: Sequence[Mapping[str, Any]] = ()

    @property
    def passed(self) -> int:
        """How many points passed on every worker."""
        return sum(point.status == "passed" for point in self.points)

    @property
    def began_at(self) -> float | None:
        """When the run began, whatever was measured later because it was resumed. Seconds since the epoch."""
        return self.started_at if self.asked_at is None else self.asked_at

    @property
    def shortfall(self) -> str:
        """What did not pass, in words: `1 of 2 benchmarks failed`; empty when everything passed."""
        counts = Counter(_became(point) for point in self.points if point.status != "passed")
        if len(self.points) == 1:
            return "".join(f"the benchmark {one}" for one, _ in counts)
        told = [(n, words[n > 1]) for words in _BECAME if (n := counts[words])]
        of = f" of {len(self.points)} benchmarks"
        return ", ".join(f"{n}{'' if place else of} {words}" for place, (n, words) in enumerate(told))

    def of_point(self, point: int) -> list[Measurement]:
        """Returns what was measured at one point."""
        return [measurement for measurement in self.measurements if measurement.point == point]

    def to_json(self) -> str:
        """Returns everything but the measurements, as JSON text."""
        plain = {
            name: [dataclasses.asdict(item) for item in value] if name in _NESTED else value
            for name, value in vars(self).items()
            if name != "measurements"
        }
        return json.dumps({"schema_version": SCHEMA_VERSION, **plain}, indent=1, sort_keys=True, default=dict)


def _became(point: PointOutcome) -> tuple[str, str]:
    """Returns what became of a point that did not pass, in words for one and for several."""
    if point.status == "failed":
        return _BECAME[0]
    return _BECAME[1 if point.attempt is not None else 2]


_BECAME = (("failed", "failed"), ("is incomplete", "are incomplete"), ("was not run", "were not run"))

_NESTED = ("points", "troubles", "attempts")


def results_from_json(content: bytes | str, place: str, fix: str) -> Results:
    """Reads points.json, without measurements. Raises InfrastructureError, naming `place` and `fix`, if it cannot."""
    try:
        fields: dict[str, Any] = json.loads(content)
        version = fields.pop("schema_version")
        if version > SCHEMA_VERSION:
            raise InfrastructureError(
                f"{place} was written by a newer slicebench (schema {version}, "
                f"this one knows {SCHEMA_VERSION}): upgrade"
            )
        fields["points"] = [
            record_of(
                PointOutcome, point, workers=[record_of(WorkerPoint, worker) for worker in point["workers"]]
            )
            for point in fields["points"]
        ]
        fields["troubles"] = [record_of(Trouble, trouble) for trouble in fields["troubles"]]
        fields["attempts"] = [record_of(AttemptEnd, attempt) for attempt in fields["attempts"]]
        return record_of(Results, fields)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InfrastructureError(f"{place} is damaged ({error}): {fix}") from error
