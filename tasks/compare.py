"""Comparison with earlier runs as a Prefect task, with the verdict as an artifact."""

from __future__ import annotations

from prefect import task

from tasks.history.verdict import Verdicts
from tasks.naming import stage_options
from tasks.stages import compare as stage
from tasks.stages.context import Run


@task(**stage_options("compare"))
def compare(run: Run) -> Verdicts:
    """Says what may be concluded from the run's numbers beside those of earlier runs."""
    return stage.compare(run)
