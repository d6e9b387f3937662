"""Stage *collect* as a Prefect task, with the table of results as an artifact."""

from __future__ import annotations

from prefect import task

from tasks.naming import stage_options
from tasks.stages import collect as stage
from tasks.stages.collect import Results
from tasks.stages.context import Run


@task(**stage_options("collect"))
def collect(run: Run) -> Results:
    """Gathers what the workers wrote into one table of samples."""
    return stage.collect(run)
