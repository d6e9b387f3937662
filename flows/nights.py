"""By what the runs of a night are made: our own command, and who gives back in the stead of one that was killed."""

from __future__ import annotations

import sys

from flows.lease import is_held, release_run
from tasks.stages.nightly_run import Hands


def hands(*, direct: bool) -> Hands:
    """Returns it. `direct`: without Prefect; else through its server where one is up, so that its UI can retry runs."""
    ours = [sys.executable, "-m", "flows.cli.main"]
    flags = ["--direct"] if direct else []
    return Hands([*ours, "run"], release_run, is_held, flags, [*ours, "workload"])
