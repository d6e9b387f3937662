"""What Prefect is told of how a run ended, and what ends one from Prefect's side."""

from __future__ import annotations

from typing import Any

from prefect import runtime
from prefect.client.schemas.objects import State
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
