"""Stage *build* as a Prefect task."""

from __future__ import annotations

from prefect import task

from tasks.naming import stage_options
from tasks.stages import build as stage
from tasks.stages.context import Run
from tasks.targets.types import Image


@task(**stage_options("build"))
def build(run: Run) -> Image:
    """Makes, or finds, what the workers run."""
    return stage.build(run)
