"""Faults on the Nth call: an error, a stall, a lost reply, or the death of the caller, before or after its effect."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Set
from typing import Any
from urllib.parse import unquote

import psutil

from tests.cloud.tpu.store import Store

ACTIONS = ("error", "stall", "lose_reply", "kill_before", "kill_after")
Fault = dict[str, Any]
"""method ("CreateNode", "mutating" or "*"), nth (from 1), times, action (error, stall, lose_reply, kill_before,
kill_after), and code, message, seconds where the action wants them."""


def due(store: Store, method: str, mutating: Set[str]) -> tuple[Fault, int]:
    """Counts this call against every fault that waits for it; `mutating` are the methods that change something.

    Returns the first that strikes now, empty for none, and when the world that was asked was born.
    """
    struck: Fault = {}
    with store.changing() as world:
        for fault in world["faults"]:
            wanted = fault["method"]
            if wanted not in (method, "*") and not (wanted == "mutating" and method in mutating):
                continue
            fault["seen"] = fault.get("seen", 0) + 1
            nth = fault.get("nth", 1)
            if not struck and nth <= fault["seen"] < nth + fault.get("times", 1):
                struck = dict(fault)
        return struck, int(world["born"])


def kill_peer(peer: str) -> None:
    """Kills the process at the other end of a connection, as `context.peer()` names it.

    Log the call before: whoever waits for the process reads the log as soon as it is dead.
    """
    pid = owner_of(int(unquote(peer).rsplit(":", 1)[1]))
    if pid is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        await_death(pid)


def owner_of(port: int) -> int | None:
    """Returns which process has the client's end of a connection; ours is the other one of the pair.

    Others on this machine may have the same port, for connections to somebody else.
    """
    there = [one for one in psutil.net_connections("tcp") if one.laddr and one.raddr and one.pid is not None]
    ours = {one.laddr.port for one in there if one.pid == os.getpid() and one.raddr.port == port}
    clients = (one.pid for one in there if one.laddr.port == port and one.raddr.port in ours)
    return next((int(pid) for pid in clients if pid != os.getpid()), None)


def await_death(pid: int) -> None:
    """A killed process may still run for a moment; nothing goes on before it is dead."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            if psutil.Process(pid).status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
                return
        except psutil.NoSuchProcess:
            return
        time.sleep(0.005)
