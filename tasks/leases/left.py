"""A workload that a run has left to itself, as its folder says: nobody need follow it until its time is over."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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


def last_attempt(folder: Folder) -> Mapping[str, Any]:
    """Returns the latest start of the workload as it was written down; nothing where none was, or the file is damaged.

    Raises InfrastructureError when the storage fails.
    """
    attempts = read_json(folder, ATTEMPTS_FILE)
    last = attempts[-1] if isinstance(attempts, list) and attempts else None
    return last if isinstance(last, dict) else {}


def left_in(folder: Folder) -> Left | None:
    """Returns what a run has left to itself; None where it has nothing, or its workload is known to have ended.

    Raises InfrastructureError when the storage fails; a damaged file says nothing.
    """
    if is_there(folder, OUTCOME_FILE):
        return None
    last = last_attempt(folder)
    ref, until = last.get("ref"), last.get("left_until")
    if last.get("end") or not isinstance(ref, dict) or not isinstance(until, int | float):
        return None
    return Left(str(ref.get("name", "")), str(ref.get("scope", "")), float(until))


def told(left: Left) -> str:
    """Says what becomes of a workload that nobody follows."""
    when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(left.until))
    return f"JobSet {left.name} goes on by itself; it, and what else was made, is given back by {when} at the latest"


def commands(left: Left, run_uri: str, lease: str) -> list[tuple[str, str]]:
    """Returns what can be done about a workload that nobody follows, and the command for each."""
    return [
        ("follow it, collect and give all back", resume(run_uri)),
        ("why it waits, or what it does", about("explain", left.name, left.scope)),
        ("what it says", about("logs", left.name, left.scope, "--follow")),
        ("give it up", shlex.join(["slicebench", "reap", "--lease", lease])),
    ]


def about(word: str, workload: str, scope: str, *flags: str) -> str:
    """Returns the command `slicebench workload WORD` about a workload, wherever it is."""
    from tasks.cloud.kubernetes_places import flags_to

    return shlex.join(["slicebench", "workload", word, workload, *flags_to(scope), *flags])
