"""How a run's lines and errors stand in Prefect's log: below their stage, without tracebacks that say nothing."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

from prefect.exceptions import FailedRun, MissingContextError
from prefect.logging import get_run_logger
from rich.console import Console

from runtime.contract.errors import SlicebenchError

_RUNS = ("prefect.flow_runs", "prefect.task_runs")
_LOGGERS = ("prefect", *_RUNS)


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


def outlive_worker() -> None:
    """Lets a run live on whose Prefect worker is killed. May be called again.

    What Prefect prints goes to the worker by a pipe; where that leads nowhere any more, rich ends the process by
    SystemExit (rich.console.Console.on_broken_pipe) at the next line. Here it only falls silent.
    """
    for logger in (logging.getLogger(), *map(logging.getLogger, _LOGGERS)):
        for handler in logger.handlers:
            console = getattr(handler, "console", None)
            if isinstance(console, Console):
                setattr(console, "on_broken_pipe", functools.partial(setattr, console, "quiet", True))  # noqa: B010


class _OneLine(logging.Filter):
    """Takes the traceback off errors that slicebench raises on purpose: their message says all there is to say.

    A flow that ended as failed is no error at all: its state and its log say how it ended, and its engine, which has
    nothing but that to raise, does not call it unexpected.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, SlicebenchError):
            record.exc_info = None
        return not isinstance(error, FailedRun)


def drop_expected_tracebacks() -> None:
    """Makes Prefect log expected errors as one line. May be called again."""
    for name in (*_RUNS, "prefect.engine"):
        logger = logging.getLogger(name)
        if not any(isinstance(known, _OneLine) for known in logger.filters):
            logger.addFilter(_OneLine())
