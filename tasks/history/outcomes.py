"""What many workers say of a point becomes one outcome. Pure; nothing is believed that somebody did not report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import asdict, is_dataclass
from typing import Any

from runtime.contract.counting import said_by
from runtime.contract.results import PointResult
from runtime.contract.suite import Point
from tasks.history.results import PointOutcome, Trouble, WorkerPoint

_DAMAGED = "what it delivered is damaged"

Reported = Mapping[tuple[int, int], Sequence[PointResult]]
"""(attempt, worker) → what that worker reported in that attempt."""


def point_outcomes(
    points: Sequence[Point], reported: Reported, workers: int, unreadable: Set[tuple[int, int]] = frozenset()
) -> list[PointOutcome]:
    """Returns the outcome of every point of the suite, in order.

    `unreadable`: (attempt, worker) of which a file is damaged, so that nothing of theirs is complete.
    """
    return [_outcome(point, _of_point(reported, point.index), workers, unreadable) for point in points]


def troubles_of(
    outcomes: Sequence[PointOutcome], arrived: Set[tuple[int, int]], workers: int
) -> list[Trouble]:
    """Says which workers never delivered results to the latest attempt, and which points nobody ran.

    `arrived` are (attempt, worker) of which anything came, be it damaged.
    """
    if not arrived:
        return [Trouble("missing", f"none of the {workers} workers delivered any results")]
    latest = max(attempt for attempt, _ in arrived)
    missing = [
        Trouble("missing", f"worker {worker} delivered no results in attempt {latest}", latest, worker)
        for worker in range(workers)
        if (latest, worker) not in arrived
    ]
    return missing + [
        Trouble("not_run", f"{outcome.benchmark} {_lacking(outcome)}: {outcome.cause}")
        for outcome in outcomes
        if outcome.status == "not_run" and not any(one.cause == _DAMAGED for one in outcome.workers)
    ]


def _lacking(outcome: PointOutcome) -> str:
    return "was never run" if outcome.attempt is None else "is incomplete"


def _of_point(reported: Reported, point: int) -> dict[int, dict[int, PointResult]]:
    """Returns attempt → worker → result, for one point."""
    found: dict[int, dict[int, PointResult]] = {}
    for (attempt, worker), results in reported.items():
        for result in results:
            if result.point == point:
                found.setdefault(attempt, {})[worker] = result
    return found


def _outcome(
    point: Point,
    attempts: Mapping[int, Mapping[int, PointResult]],
    workers: int,
    unreadable: Set[tuple[int, int]],
) -> PointOutcome:
    ran = [
        n for n, results in attempts.items() if any(result.status != "not_run" for result in results.values())
    ]
    # The latest attempt that ran the point counts, whatever came of it: to pick one that passed would flatter.
    attempt = max(ran, default=None)
    results = attempts[attempt] if attempt is not None else attempts.get(max(attempts, default=0), {})
    of = max(attempts, default=max((n for n, _ in unreadable), default=0)) if attempt is None else attempt
    told = [_told(worker, results.get(worker), (of, worker) in unreadable) for worker in range(workers)]
    failed = [worker for worker in told if worker.status == "failed"]
    silent = [worker for worker in told if worker.status == "not_run"]
    any_result = next(iter(results.values()), None)
    return PointOutcome(
        point=point.index,
        benchmark=point.benchmark,
        benchmark_key=point.key,
        generator=point.generator,
        implementation=any_result.implementation if any_result else point.implementation,
        status="failed" if failed else "passed" if attempt is not None and not silent else "not_run",
        cause=_cause(failed) if failed else _cause(silent),
        attempt=attempt,
        workers=told,
        options=dict(any_result.options if any_result else point.options),
        mesh=_plain(any_result.mesh if any_result else point.mesh),
        checkpoint=_plain(any_result.checkpoint if any_result else point.checkpoint),
        disruption=_plain(any_result.disruption if any_result else point.disruption),
        stopped=any_result.stopped if any_result else "",
    )


def _told(worker: int, result: PointResult | None, unreadable: bool) -> WorkerPoint:
    if unreadable and (result is None or result.status == "passed"):
        done = result.repeats_done if result else 0
        return WorkerPoint(worker, "not_run", _DAMAGED, repeats_done=done)
    if result is None:
        return WorkerPoint(worker, "not_run", "it reported nothing")
    cause = result.cause or ("" if result.status == "passed" else "no cause was given")
    return WorkerPoint(worker, result.status, cause, result.blamed, result.repeats_done)


def _cause(workers: Sequence[WorkerPoint]) -> str:
    """Returns the first worker's cause, and how many others share the fate."""
    if not workers:
        return ""
    first = workers[0]
    agreed = len({worker.cause for worker in workers}) == 1 and len(workers) > 1
    numbers = ", ".join(str(worker.worker) for worker in workers)
    who = f"workers {numbers}" if agreed else f"worker {first.worker}"
    others = f" (and {len(workers) - 1} more)" if len(workers) > 1 and not agreed else ""
    return (said_by(who, first.cause) if first.blamed is None else first.cause) + others


def _plain(value: Any) -> dict[str, Any] | None:
    """Returns a mesh or checkpoint as JSON has it."""
    if value is None:
        return None
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else dict(value)
