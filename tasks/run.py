"""Stage *run* as a Prefect task, with a bar that moves in the UI."""

from __future__ import annotations

from prefect import task

from tasks.artifacts import key_of, progress_bar
from tasks.leases.holding import Holding
from tasks.naming import stage_options
from tasks.preload import preload
from tasks.stages import leaving
from tasks.stages import run as stage
from tasks.stages.context import Run
from tasks.targets.types import Outcome, Progress, Uploaded


@task(**stage_options("run"))
def run_workload(run: Run, uploaded: Uploaded, lease: Holding) -> Outcome:
    """Starts the workload and follows it to its end."""
    suite = run.spec.suite_name
    with progress_bar(run.say, key_of("progress", suite), f"{suite}: repeats done") as show:
        return stage.run_workload(
            run,
            uploaded,
            lease,
            on_progress=lambda progress: show(percent_done(progress, run.spec.num_repeats)),
            once_heard=preload,
        )


@task(**stage_options("run"))
def come_back(run: Run, lease: Holding) -> None:
    """Follows a workload that was left to itself to its end."""
    suite = run.spec.suite_name
    with progress_bar(run.say, key_of("progress", suite), f"{suite}: repeats done") as show:
        leaving.come_back(
            run,
            lease,
            on_progress=lambda progress: show(percent_done(progress, run.spec.num_repeats)),
            once_heard=preload,
        )


def percent_done(progress: Progress, repeats: int) -> float:
    """Returns how far a suite is, in percent, by the point and repeat that a worker is at."""
    if progress.points < 1:
        return 0.0
    within = min(1.0, progress.repeat / max(1, repeats))
    return 100.0 * min(1.0, (progress.point + within) / progress.points)
