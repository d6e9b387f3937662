"""The report as a Prefect task, with a link to it as an artifact."""

from __future__ import annotations

from prefect import task

from tasks.naming import stage_options
from tasks.stages import report as stage
from tasks.stages.context import Run


@task(**stage_options("report"))
def report(run: Run) -> str:
    """Writes the report; returns where it lies."""
    return stage.report(run)
