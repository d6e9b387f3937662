"""Comparison with earlier runs as a Prefect task, with the verdict as an artifact."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prefect import task

from tasks.naming import stage_options
from tasks.stages.context import Run

if TYPE_CHECKING:
    from tasks.history.verdict import Verdicts


@task(**stage_options("compare"))
def compare(run: Run) -> Verdicts:
    """Says what may be concluded from the run's numbers beside those of earlier runs."""
    from tasks.stages import compare as stage  # slow: see tasks/preload.py

    return stage.compare(run)
