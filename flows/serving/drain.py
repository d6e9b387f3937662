"""Going down without cutting a run in silence: a Prefect worker that is stopped kills its runs, teardown and all."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from flows.api import FlowRunState, PrefectApi
from flows.serving.station import POOLS
from runtime.contract.errors import InfrastructureError

_LOOK_EVERY_S = 0.5
_SAY_EVERY_S = 30.0


def drain(api: PrefectApi, urgency: Callable[[], int], tell: Callable[[str], None]) -> None:
    """Takes no more work and returns when what runs has ended.

    `urgency` 0: waits. 1: cancels what runs, which gives everything back, and waits for that. 2: returns at
    once.
    """
    try:
        for pool in POOLS:
            api.pause_pool(pool)
        cancelled: set[str] = set()
        told_at = float("-inf")
        while going := api.going():
            if urgency() >= 2:
                tell(f"leaving {_names(going)} as they are; the reaper gives back what they hold")
                return
            if urgency() >= 1:
                for flow_run in going:
                    if flow_run.id not in cancelled:
                        tell(f"cancelling {flow_run.name}")
                        api.cancel(flow_run.id)
                        cancelled.add(flow_run.id)
            elif time.monotonic() - told_at > _SAY_EVERY_S:
                tell(
                    f"waiting for {_names(going)} to end (Ctrl-C once more, or `slicebench down --now`: cancel)"
                )
                told_at = time.monotonic()
            time.sleep(_LOOK_EVERY_S)
    except InfrastructureError as error:
        tell(f"cannot wait for what runs: {error}")


def _names(going: Sequence[FlowRunState]) -> str:
    return ", ".join(flow_run.name for flow_run in going)
