"""Going down without cutting a run in silence: a Prefect worker that is stopped kills its runs, teardown and all."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from flows.api import FlowRunState, PrefectApi
from flows.serving.settings import POOLS
from runtime.contract.errors import InfrastructureError

_LOOK_EVERY_S = 0.5
_SAY_EVERY_S = 30.0


def drain(
    api: PrefectApi,
    look: Callable[[], None],
    urgency: Callable[[], int],
    tell: Callable[[str], None],
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Takes no more work and returns when what runs has ended.

    `urgency` 0: waits. 1: cancels what runs, which gives everything back, and waits for that. 2: returns at
    once. A server that does not answer is asked again, for it is busy or has just been started again: what `look`
    raises when it will not stay up, this raises as well.
    """
    draining = _Draining(api, tell)
    while True:
        look()
        try:
            if not draining.step(urgency()):
                return
        except InfrastructureError as error:
            if urgency() >= 2:
                tell("leaving what runs as it is; the reaper gives back what it holds")
                return
            draining.say(f"the server does not answer and is asked again: {error}")
        sleep(_LOOK_EVERY_S)


class _Draining:
    """What has been done so far to let runs end."""

    def __init__(self, api: PrefectApi, tell: Callable[[str], None]) -> None:
        self._api, self._tell = api, tell
        self._paused: set[str] = set()
        self._cancelled: set[str] = set()
        self._told_at = float("-inf")

    def step(self, urgency: int) -> bool:
        """Does what can be done now; says whether anything is left to wait for."""
        for pool in POOLS:
            if pool not in self._paused:
                self._api.pause_pool(pool)
                self._paused.add(pool)
        going = self._api.going()
        if urgency >= 2 and going:
            self._tell(f"leaving {_names(going)} as they are; the reaper gives back what they hold")
            return False
        if urgency == 1:
            for flow_run in going:
                if flow_run.id not in self._cancelled:
                    self._tell(f"cancelling {flow_run.name}")
                    self._api.cancel(flow_run.id)
                    self._cancelled.add(flow_run.id)
        elif going:
            self.say(
                f"waiting for {_names(going)} to end (Ctrl-C once more, or `slicebench down --now`: cancel)"
            )
        return bool(going)

    def say(self, line: str) -> None:
        """Tells what is waited for, now and then."""
        if time.monotonic() - self._told_at > _SAY_EVERY_S:
            self._tell(line)
            self._told_at = time.monotonic()


def _names(going: Sequence[FlowRunState]) -> str:
    return ", ".join(flow_run.name for flow_run in going)
