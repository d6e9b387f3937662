"""Says when a supervisor has lost what it lives for: renewals of its lease, or the process that owns it."""

from __future__ import annotations

from pathlib import Path

from runtime.contract.job import Owner
from runtime.contract.process import started_at


class Renewals:
    """Watches a file that the run touches. Only this host's monotonic clock counts.

    Times are seconds of that clock, given by the caller.
    """

    def __init__(self, path: str, lease_s: float, now: float) -> None:
        self._path = Path(path)
        self._lease_s = lease_s
        self._seen = self._look()
        self._renewed = now

    def overdue(self, now: float) -> str:
        """Returns the cause when the file was not touched for the length of the lease, else nothing."""
        seen = self._look()
        if seen != self._seen and seen is not None:
            self._renewed = now
        self._seen = seen
        if now - self._renewed <= self._lease_s:
            return ""
        return f"the lease was not renewed for {self._lease_s:g} s: nobody touched {self._path}"

    def _look(self) -> tuple[int, int, int] | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_ino, status.st_size, status.st_mtime_ns


def owner_gone(owner: Owner) -> str:
    """Returns the cause when the owner has ended, else nothing."""
    started = started_at(owner.pid)
    # Clock ticks are 10 ms; the time may have passed through JSON.
    if started is not None and abs(started - owner.started_at) < 0.05:
        return ""
    return f"the process that owns this run (pid {owner.pid}) is gone"
