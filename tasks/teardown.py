"""Stage *teardown* as a Prefect task. Runs while errors, signals and cancellations unwind the flow."""

from __future__ import annotations

from prefect import task

from tasks.leases.holding import Holding
from tasks.naming import stage_options
from tasks.stages import teardown as stage
from tasks.stages.context import Run


@task(**stage_options("teardown"))
def teardown(run: Run, lease: Holding, *, failed: bool = False) -> None:
    """Gives everything back that is not kept, and looks that it is gone.

    Asks nothing of Prefect before it has asked for deletion.
    """
    stage.teardown(run, lease, failed=failed)
