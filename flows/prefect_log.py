"""How a run's lines and errors stand in Prefect's log: below their stage, and without tracebacks that say nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from prefect.exceptions import MissingContextError
from prefect.logging import get_run_logger

from runtime.contract.errors import SlicebenchError


def logged_by(flow_logger: logging.Logger | logging.LoggerAdapter[Any]) -> Callable[[str], None]:
    """Returns what logs a line of a run."""

    def log(line: str) -> None:
        try:
            # Within a task this is the task's own logger, so that the line stands below its stage in the UI.
            get_run_logger().info("%s", line)
        except MissingContextError:
            # Followers say things from threads of their own, which know no run.
            flow_logger.info("%s", line)

    return log


class _OneLine(logging.Filter):
    """Takes the traceback off errors that slicebench raises on purpose: their message says all there is to say."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info and isinstance(record.exc_info[1], SlicebenchError):
            record.exc_info = None
        return True


def drop_expected_tracebacks() -> None:
    """Makes Prefect log expected errors as one line. May be called again."""
    for name in ("prefect.flow_runs", "prefect.task_runs"):
        logger = logging.getLogger(name)
        if not any(isinstance(known, _OneLine) for known in logger.filters):
            logger.addFilter(_OneLine())
