"""Says when a supervisor has lost what it lives for: renewals of its lease, or the process that owns it."""

from __future__ import annotations

from pathlib import Path

from runtime.contract.job import Job, Owner
from runtime.contract.process import started_at

_WATCH_EVERY_S = 0.5


class Watch:
    """Looks now and then whether what a job lives for is still there."""

    def __init__(self, job: Job, now: float) -> None:
        self._owner = job.owner
        self._renewals = Renewals(job.renewal_file, job.lease_s, now) if job.renewal_file else None
        self._at = now

    def lost(self, now: float) -> str:
        """Returns what it has lost; empty: nothing, or it is too early to look again."""
        if now < self._at:
            return ""
        self._at = now + _WATCH_EVERY_S
        overdue = self._renewals.overdue(now) if self._renewals else ""
        return overdue or (owner_gone(self._owner) if self._owner else "")


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
