"""The command line that a session's worker is started with: all that a job says, as flags."""

from __future__ import annotations

import math

from runtime.contract.disruption import Restart
from runtime.contract.job import Job
from runtime.contract.names import SUITE_FILE


def command_line(
    job: Job, first_point: int, coordinator: str | None, restart: Restart | None = None
) -> list[str]:
    """Returns the command of a worker for one session."""
    command = [job.python, "-m", "runtime", job.suite or SUITE_FILE, "--output", job.output]
    command += ["--run-id", job.run_id, "--attempt", str(job.attempt), "--scratch", job.scratch]
    command += ["--first-point", str(first_point), "--platform", job.platform]
    command += ["--worker", str(job.worker), "--workers", str(job.workers)]
    if coordinator:
        command += ["--coordinator", coordinator, "--heartbeat-s", str(job.heartbeat_s)]
        if job.deadlines.init_s is not None:
            command += ["--init-deadline-s", str(max(1, math.ceil(job.deadlines.init_s)))]
    if job.devices_per_worker is not None:
        command += ["--devices-per-worker", str(job.devices_per_worker)]
    if job.points is not None:
        command += ["--points", ",".join(map(str, job.points))]
    if job.local_directory is not None:
        command += ["--local-directory", job.local_directory]
    if restart is not None:
        command += ["--restart", restart.to_json()]
    if job.debug_dumps:
        command += ["--debug-dumps"]
    return command
