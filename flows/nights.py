"""By what the runs of a night are made: our own command, and who gives back in the stead of one that was killed."""

from __future__ import annotations

import sys

from flows.lease import is_held, release_run
from tasks.stages.nightly_run import Hands


def hands(*, direct: bool) -> Hands:
    """Returns it. `direct`: without Prefect; else through its server where one is up, so that its UI can retry runs."""
    command = [sys.executable, "-m", "flows.cli.main", "run"]
    return Hands(command, release_run, is_held, ["--direct"] if direct else [])
