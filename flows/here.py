"""A run in this process, with a Prefect server of its own for as long as it takes."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from flows.serving.ephemeral import ephemeral_server
from flows.signals import answered
from flows.terminal import Terminal
from runtime.contract.errors import ExitCode, Interrupted
from tasks.config.request import RunRequest

_QUIET = {
    # Our own lines reach the terminal without Prefect's decoration; its own words are in its API's log.
    "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_HANDLERS_DEBUG_LEVEL": "CRITICAL",
    # The server is ours and near: an answer that does not come within seconds will not come.
    "PREFECT_CLIENT_MAX_RETRIES": "2",
}

_FLUSH_S = 5.0


def run_here(request: RunRequest, terminal: Terminal) -> str:
    """Runs the flow to its end; returns the message of its last state, or why Prefect does not know that.

    Raises KeyboardInterrupt or Interrupted when a signal ended it; by then everything was given back.
    """
    with _sigterm_raises(), ephemeral_server() as server:
        for name in [name for name in os.environ if name.startswith("PREFECT_")]:
            del os.environ[name]
        os.environ.update(server.settings | _QUIET)
        # What its log lacks when the server dies is in run.log; Prefect would shout into the terminal's lines.
        logging.raiseExceptions = False
        from flows.benchmark import benchmark
        from flows.narration import heard_by

        server.wait_until_ready(terminal.tell)
        try:
            with heard_by(terminal), _flushed():
                state = benchmark(**request.model_dump(exclude_none=True), return_state=True)
        except httpx.HTTPError as error:
            # Stages need no server: this comes of telling it how the run began or ended.
            reason = server.what_happened(error)
            terminal.tell(
                f"{reason}: Prefect does not know how the run ended; outcome and exit code are the run's own"
            )
            return f"{ExitCode.INFRASTRUCTURE.name}: {reason}"
        return str(state.message or "")


@contextmanager
def _flushed() -> Iterator[None]:
    """Sends what Prefect has queued while there still is a server to send it to."""
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker

    try:
        yield
    finally:
        for queue in (APILogWorker, EventsWorker):
            queue.drain_all(timeout=_FLUSH_S)


@contextmanager
def _sigterm_raises() -> Iterator[None]:
    """Outside the flow, where Prefect does not do it, SIGTERM ends the process by an exception too."""

    def interrupt(number: signal.Signals) -> None:
        raise Interrupted(f"interrupted by {number.name}")

    with answered((signal.SIGTERM,), interrupt):
        yield
