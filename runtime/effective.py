"""What a point really was, as plain JSON, for its result and its supervisor."""

from __future__ import annotations

from typing import Any

from runtime.contract.keys import plain
from runtime.contract.progress import PointPhase
from runtime.contract.results import PointResult, PointStatus
from runtime.contract.suite import Point


def described(point: Point) -> dict[str, Any]:
    """Returns a point for the manifest, with all options of a known class, and of a user's those that were given."""
    return {
        "point": point.index,
        "benchmark": point.benchmark,
        "benchmark_key": point.key,
        "generator": point.generator,
        "implementation": point.implementation,
        "deadline_s": point.deadline_s,
        "options": plain(point.options),
        "mesh": plain(point.mesh),
        "checkpoint": plain(point.checkpoint),
        "disruption": plain(point.disruption),
        "page_cache": point.page_cache,
    }


def begin(point: Point, points: int) -> PointPhase:
    """Returns the record that a point begins; it says enough for the supervisor to write the point down."""
    return PointPhase(
        "begin",
        point.index,
        points,
        point.benchmark,
        point.key,
        deadline_s=point.deadline_s,
        generator=point.generator,
        implementation=point.implementation,
        options=plain(point.options),
        mesh=plain(point.mesh),
        checkpoint=plain(point.checkpoint),
        disruption=plain(point.disruption),
    )


def end(point: Point, points: int, status: str, cause: str) -> PointPhase:
    """Returns the record that a point has ended."""
    return PointPhase("end", point.index, points, point.benchmark, point.key, status=status, cause=cause)


def result(
    point: Point,
    *,
    run_id: str,
    attempt: int,
    worker: int,
    status: PointStatus,
    cause: str,
    repeats_done: int,
    stopped: str = "",
    paused: bool = False,
) -> PointResult:
    """Returns what is written down of a point on one worker."""
    return PointResult(
        run_id=run_id,
        attempt=attempt,
        point=point.index,
        worker=worker,
        benchmark=point.benchmark,
        benchmark_key=point.key,
        generator=point.generator,
        implementation=point.implementation,
        status=status,
        cause=cause,
        repeats_done=repeats_done,
        stopped=stopped,
        paused=paused,
        options=plain(point.options),
        mesh=plain(point.mesh),
        checkpoint=plain(point.checkpoint),
        disruption=plain(point.disruption),
    )
