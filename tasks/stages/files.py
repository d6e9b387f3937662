"""Names of what the control side writes into a run's folder; what workers write is in runtime/contract/names.py."""

from __future__ import annotations

from runtime.contract.names import LOGS_FOLDER

REQUEST_FILE = "request.json"
"""What was asked for: a folder that has it is a run."""

RUN_LOG = "run.log"
"""Everything the run said, a time and a text a line."""

ATTEMPTS_FILE = "attempts.json"
"""Every start of the workload, written before it happens and after it has ended."""

OUTCOME_FILE = "outcome.json"
"""How the run ended: exit code, verdict and causes."""

REPORT_FILE = "report.html"


def log_folder(attempt: int) -> str:
    """Returns where the logs of an attempt's workers lie."""
    return LOGS_FOLDER if attempt == 1 else f"{LOGS_FOLDER}/attempt-{attempt}"


def log_file(attempt: int, worker: int) -> str:
    """Returns where the log of a worker lies."""
    return f"{log_folder(attempt)}/worker-{worker:04d}.log"
