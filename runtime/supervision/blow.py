"""One supervisor's part in a disruption: it strikes its worker, and tells the next session when that was."""

from __future__ import annotations

import signal
import time
from dataclasses import replace

from runtime.contract.disruption import Restart
from runtime.supervision.worker import Worker


class Blow:
    """When this host's worker was struck, and when the end of its session was noticed. Of the session that runs."""

    def __init__(self) -> None:
        self._killed_at: float | None = None
        self._ended_at: float | None = None
        self._grace_ends: float | None = None

    def strike(self, worker: Worker | None, number: signal.Signals, grace_s: float) -> None:
        """Sends the signal; one that the worker may survive is followed by SIGKILL after its grace."""
        if worker is None:
            return
        self._killed_at = time.monotonic()
        worker.strike(number)
        if number is not signal.SIGKILL:
            self._grace_ends = self._killed_at + grace_s

    def tick(self, worker: Worker | None, now: float) -> None:
        """Time has passed; `now` is in seconds of the monotonic clock."""
        if self._grace_ends is not None and now >= self._grace_ends:
            self._grace_ends = None
            if worker is not None:
                worker.strike(signal.SIGKILL)

    def noticed(self) -> bool:
        """The session is ended by command. Says whether this host's worker was struck before."""
        self._ended_at = time.monotonic()
        return self._killed_at is not None

    def over(self, restart: Restart | None) -> Restart | None:
        """Another session begins; returns what its worker is told, with the times of this host."""
        told = restart and replace(restart, killed_at=self._killed_at, ended_at=self._ended_at)
        self._killed_at = self._ended_at = self._grace_ends = None
        return told
