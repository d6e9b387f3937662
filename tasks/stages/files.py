"""Names of what the control side writes into a run's folder; what workers write is in runtime/contract/names.py."""

from __future__ import annotations

from runtime.contract.names import LOGS_FOLDER
from tasks.leases.left import ATTEMPTS_FILE
from tasks.leases.outcome import OUTCOME_FILE, REQUEST_FILE, RUN_LOG

__all__ = [
    "ATTEMPTS_FILE",
    "OUTCOME_FILE",
    "REPORT_FILE",
    "REQUEST_FILE",
    "RUN_LOG",
    "log_file",
    "log_folder",
]

REPORT_FILE = "report.html"


def log_folder(attempt: int) -> str:
    """Returns where the logs of an attempt's workers lie."""
    return LOGS_FOLDER if attempt == 1 else f"{LOGS_FOLDER}/attempt-{attempt}"


def log_file(attempt: int, worker: int) -> str:
    """Returns where the log of a worker lies."""
    return f"{log_folder(attempt)}/worker-{worker:04d}.log"
