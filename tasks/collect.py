"""Stage *collect* as a Prefect task, with the table of results as an artifact."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prefect import task

from tasks.naming import stage_options
from tasks.stages.context import Run

if TYPE_CHECKING:
    from tasks.history.results import Results


@task(**stage_options("collect"))
def collect(run: Run) -> Results:
    """Gathers what the workers wrote into one table of samples."""
    from tasks.stages import collect as stage  # slow: see tasks/preload.py

    return stage.collect(run)
