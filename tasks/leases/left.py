"""A workload that a run has left to itself, as its folder says: nobody need follow it until its time is over."""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass

from tasks.cloud.storage import Folder, is_there, read_json
from tasks.config.commands import resume
from tasks.leases.outcome import OUTCOME_FILE

ATTEMPTS_FILE = "attempts.json"
"""Every start of the workload, written before it happens and after it has ended."""

NOTE = "its workload was left to itself"
"""What the lease says of itself until somebody has followed the workload to its end."""


@dataclass(frozen=True)
class Left:
    """`name` and `scope` of the workload; `until`: seconds since the epoch, when it is given back at the latest."""

    name: str
    scope: str
    until: float


def left_in(folder: Folder) -> Left | None:
    """Returns what a run has left to itself; None where it has nothing, or its workload is known to have ended.

    Raises InfrastructureError when the storage fails; a damaged file says nothing.
    """
    if is_there(folder, OUTCOME_FILE):
        return None
    attempts = read_json(folder, ATTEMPTS_FILE)
    last = attempts[-1] if isinstance(attempts, list) and attempts else None
    if not isinstance(last, dict) or last.get("end") or not isinstance(last.get("ref"), dict):
        return None
    until = last.get("left_until")
    if not isinstance(until, int | float):
        return None
    return Left(str(last["ref"].get("name", "")), str(last["ref"].get("scope", "")), float(until))


def told(left: Left) -> str:
    """Says what becomes of a workload that nobody follows."""
    when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(left.until))
    return f"JobSet {left.name} goes on by itself; it, and what else was made, is given back by {when} at the latest"


def commands(left: Left, run_uri: str, lease: str) -> list[tuple[str, str]]:
    """Returns what can be done about a workload that nobody follows, and the command for each."""
    from tasks.cloud.kubernetes_places import flags_to

    where = flags_to(left.scope)
    return [
        ("follow it, collect and give all back", resume(run_uri)),
        (
            "why it waits, or what it does",
            shlex.join(["slicebench", "workload", "explain", left.name, *where]),
        ),
        ("what it says", shlex.join(["slicebench", "workload", "logs", left.name, *where, "--follow"])),
        ("give it up", shlex.join(["slicebench", "reap", "--lease", lease])),
    ]
