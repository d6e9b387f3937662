"""What a run that goes on still has to measure: the points that have not passed on every worker."""

from __future__ import annotations

from collections.abc import Sequence

from runtime.contract.names import samples_file
from tasks.cloud.storage import is_there
from tasks.stages.attempts import Started
from tasks.stages.context import Run


def missing_points(run: Run, attempts: Sequence[Started]) -> tuple[int, ...]:
    """Returns the numbers of the points that have not passed on every worker, by results that can be read.

    Nothing that a preempted attempt measured counts: its timings are not those of quiet hardware.
    """
    counted = {one.n for one in attempts if one.counts and one.end != "preempted"}
    if not counted:
        return tuple(point.index for point in run.spec.points)
    # A first attempt comes before any results, and before what reads them is imported.
    from tasks.history.outcomes import point_outcomes
    from tasks.stages.collect import bring_home, read_parts

    bring_home(run)  # what could not be brought is missing
    parts = read_parts(run)
    damaged = {(trouble.attempt, trouble.worker) for trouble in parts.troubles}
    whole = {
        of: results
        for of, results in parts.points.items()
        if of[0] in counted and of not in damaged and is_there(run.folder, samples_file(*of))
    }
    outcomes = point_outcomes(run.spec.points, whole, run.plan.workers)
    return tuple(outcome.point for outcome in outcomes if outcome.status != "passed")
