"""Stage *run* as a Prefect task, with a bar that moves in the UI."""

from __future__ import annotations

from prefect import task

from tasks.leases.holding import Holding
from tasks.naming import stage_options
from tasks.stages import run as stage
from tasks.stages.context import Run
from tasks.targets.types import Outcome, Uploaded


@task(**stage_options("run"))
def run_workload(run: Run, uploaded: Uploaded, lease: Holding) -> Outcome:
    """Starts the workload and follows it to its end."""
    return stage.run_workload(run, uploaded, lease)
