"""Stage *upload* as a Prefect task."""

from __future__ import annotations

from prefect import task

from tasks.naming import stage_options
from tasks.stages import upload as stage
from tasks.stages.context import Run
from tasks.targets.types import Image, Uploaded, Workers


@task(**stage_options("upload"))
def upload(run: Run, workers: Workers, image: Image) -> Uploaded:
    """Brings suite and worker code to every worker."""
    return stage.upload(run, workers, image)
