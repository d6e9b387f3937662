"""What Prefect is told of how a run ended, and what ends one from Prefect's side."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from prefect import runtime
from prefect.client.schemas.objects import State
from prefect.context import FlowRunContext
from prefect.exceptions import TerminationSignal
from prefect.states import Completed, Failed

from flows.api import PrefectApi
from flows.ending import Interruption
from flows.pipeline import Ended
from flows.server import known_server
from runtime.contract.errors import ExitCode, SlicebenchError

_ASK_S = 3.0
"""Of the 30 s that Prefect leaves a cancelled flow run, no more than this goes to asking why it ends."""


def state_of(ended: Ended) -> State[Any]:
    """Returns the flow run's last state; its message leads with the exit code's name."""
    if ended.code is ExitCode.DONE:
        return Completed(message=ended.message or None)
    return Failed(message=ended.message)


def recorded_state(code: int | None, answer: str) -> State[Any]:
    """Returns the last state of what has written down how it ended: its exit code, and what it came to in a line."""
    ended = ExitCode(code or 0)
    if ended is ExitCode.DONE:
        return Completed(message=answer)
    return Failed(message=f"{ended.name}: {answer}")


def refused_state(error: SlicebenchError) -> State[Any]:
    """Returns the last state of what did not begin."""
    return recorded_state(error.exit_code, str(error).splitlines()[0])


def began(now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> datetime:
    """Returns when the flow run's first attempt began: a retry after midnight is of the same night."""
    context = FlowRunContext.get()
    flow_run = context.flow_run if context is not None else None
    return (flow_run.start_time if flow_run is not None else None) or now()


def why_signalled() -> str:
    """Says whether the signal that ended this flow run came because its server was told to cancel it."""
    return "cancelled in Prefect" if _cancelled() else "ended by a signal"


IN_A_FLOW = Interruption((KeyboardInterrupt, TerminationSignal, SystemExit), why_signalled)


def _cancelled() -> bool:
    server, flow_run_id = known_server(), runtime.flow_run.id
    if server is None or flow_run_id is None:
        return False
    try:
        with PrefectApi(server, timeout_s=_ASK_S) as api:
            return api.flow_run(str(flow_run_id)).state_type in ("CANCELLING", "CANCELLED")
    except SlicebenchError:
        return False
