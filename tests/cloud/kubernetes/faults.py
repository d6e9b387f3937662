"""Faults on the Nth call: an error, a stall, a lost reply, a dropped connection, the death of a process."""

from __future__ import annotations

import asyncio
import contextlib
import fnmatch
import os
import signal
from typing import Any

from tests.cloud.faults import await_death, owner_of
from tests.cloud.kubernetes.refusals import Refused

Fault = dict[str, Any]
"""verb (`create`, `mutating`, `*` …), kind (`jobsets`, `*`), name (a pattern), sub, nth (from 1), times, action (error,
stall, drop, lose_reply, kill_before, kill_after), and code, reason, message, retry_after, seconds, pid where the action
wants them. `kill_…` without pid kills the process at the other end of the connection."""

MUTATING = {"create", "update", "patch", "delete", "deletecollection"}
ACTIONS = {"error", "stall", "drop", "lose_reply", "kill_before", "kill_after"}


class Faults:
    """The faults that wait, and the streams that can be cut."""

    def __init__(self) -> None:
        """Starts with none."""
        self.waiting: list[Fault] = []
        self.cuts: dict[str, asyncio.Event] = {"watch": asyncio.Event(), "log": asyncio.Event()}
        self.seen: list[str] = []
        """Every call that came: `verb plural namespace/name`."""

    def due(self, verb: str, plural: str, name: str, sub: str = "") -> Fault:
        """Counts a call against every fault that waits for it; returns the first that strikes, empty for none."""
        struck: Fault = {}
        for fault in self.waiting:
            wanted = fault.get("verb", "*")
            if wanted not in (verb, "*") and not (wanted == "mutating" and verb in MUTATING):
                continue
            if fault.get("kind", "*") not in (plural, "*") or fault.get("sub", sub) != sub:
                continue
            if not fnmatch.fnmatch(name, fault.get("name", "*")):
                continue
            fault["seen"] = fault.get("seen", 0) + 1
            nth = fault.get("nth", 1)
            if not struck and nth <= fault["seen"] < nth + fault.get("times", 1):
                struck = fault
        return struck

    def cut(self, what: str) -> None:
        """Ends all streams of a sort (`watch`, `log`) that are open now."""
        self.cuts[what].set()
        self.cuts[what] = asyncio.Event()


def refusal(fault: Fault) -> Refused:
    """Returns the error of a fault."""
    code = int(fault.get("code", 500))
    message = fault.get("message") or {
        429: "the server has received too many requests and has asked us to try again later",
        500: "Internal error occurred: etcdserver: request timed out",
        503: "apiserver not ready",
        504: "Timeout: request did not complete within the allotted timeout",
    }.get(code, "a fault of the test")
    details = {"retryAfterSeconds": int(fault["retry_after"])} if "retry_after" in fault else None
    return Refused(code, message, reason=fault.get("reason", ""), details=details)


def kill(fault: Fault, client: tuple[str, int] | None) -> None:
    """Kills the process that a fault names, or the one at the client's end of a connection, and sees it dead."""
    pid = fault.get("pid") or (owner_of(client[1]) if client else None)
    if pid is None or pid == os.getpid():
        return
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    await_death(pid)
