"""What makes a pid mean one process: since which start of the machine, and how long after it, the process runs."""

from __future__ import annotations

import functools
import os
from pathlib import Path

_STATE, _START_TIME = 0, 19
"""Fields of /proc/PID/stat, counted after the name in parentheses."""


def started_at(pid: int) -> float | None:
    """Returns seconds from boot to the start of a process, or None when it is gone or a zombie.

    Seconds after boot, not since the epoch: setting the clock must not make a living process look dead.
    Source: /proc/PID/stat field 22, in clock ticks.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat[stat.rindex(b")") + 2 :].split()
    if fields[_STATE] in (b"Z", b"X"):
        return None
    return int(fields[_START_TIME]) / os.sysconf("SC_CLK_TCK")


@functools.cache
def boot_id() -> str:
    """Returns what names this machine's latest start. Source: /proc/sys/kernel/random/boot_id."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
