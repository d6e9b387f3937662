"""Stage *provision* as a Prefect task."""

from __future__ import annotations

from prefect import task

from tasks.leases.holding import Holding
from tasks.naming import stage_options
from tasks.stages import provision as stage
from tasks.stages.context import Run
from tasks.targets.types import Workers


@task(**stage_options("provision"))
def provision(run: Run, lease: Holding) -> Workers:
    """Adopts or makes the hardware, through the lease."""
    return stage.provision(run, lease)
