"""Processes under a label: found in /proc by what is in their environment, known by pid and start, ended for good."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

STOPPED, UNINTERRUPTIBLE, GONE = "stopped", "uninterruptible", "gone"


@dataclass(frozen=True)
class Process:
    """One process as /proc showed it. `start` is in clock ticks after boot: with the pid, its identity."""

    pid: int
    parent: int
    session: int
    state: str
    start: int


def look(pid: int) -> Process | None:
    """Returns a process, or None when it is gone or a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat[stat.rindex(b")") + 2 :].split()
    if fields[0] in (b"Z", b"X"):
        return None
    return Process(pid, int(fields[1]), int(fields[3]), fields[0].decode(), int(fields[19]))


def all_processes() -> Iterator[Process]:
    """Yields every process of this machine that can be seen."""
    for name in os.listdir("/proc"):  # noqa: PTH208 (a Path for each of thousands of entries)
        if name.isdigit() and (found := look(int(name))):
            yield found


def labelled(prefix: bytes) -> list[Process]:
    """Returns the processes whose environment holds an entry that starts with `prefix`, this one excepted."""
    me = os.getpid()
    return [process for process in all_processes() if process.pid != me and _has_entry(process.pid, prefix)]


def tree(label: bytes, root: int, spare: Collection[int] | None = None) -> list[Process]:
    """Returns what belongs to a worker, however it hid: from its environment, its session, or its parent.

    Given `spare`, the children of this process that do not belong to the worker, all other children
    do: they are orphans that `adopt_orphans` brought here.
    """
    everything = list(all_processes())
    me = os.getpid()
    found = {
        process.pid: process
        for process in everything
        if process.pid == root
        or process.session == root
        or (spare is not None and process.parent == me and process.pid not in spare)
        or _has_entry(process.pid, label)
    }
    while more := [one for one in everything if one.parent in found and one.pid not in found]:
        found.update((process.pid, process) for process in more)
    found.pop(me, None)
    return list(found.values())


def kill(process: Process, number: signal.Signals = signal.SIGKILL) -> None:
    """Sends a signal to exactly this process: never to a later one with the same pid."""
    try:
        fd = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    try:
        now = look(process.pid)
        if now is not None and now.start == process.start:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(fd, number)
    finally:
        os.close(fd)


def end_tree(
    label: bytes, root: int, spare: Collection[int] | None = None, limit_s: float = 10.0
) -> list[Process]:
    """Kills everything of `tree` until nothing is left, or `limit_s` have passed. Returns what is left."""
    until = time.monotonic() + limit_s
    while left := tree(label, root, spare):
        if time.monotonic() > until:
            return left
        for process in left:
            kill(process)
        reap_orphans(root, *(spare or ()))
        time.sleep(
            0.01
        )  # a killed process needs a moment to go, and nothing tells when a stranger's child has
    return []


def adopt_orphans() -> None:
    """Makes this process the parent of descendants whose own parent died, so that none of them can slip away."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def reap_orphans(*own: int) -> None:
    """Collects dead children that nobody waits for, but none of `own`: somebody else asks for their exit code."""
    while True:
        try:
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if found is None or found.si_pid in own:
            return
        with contextlib.suppress(ChildProcessError):
            os.waitpid(found.si_pid, os.WNOHANG)


def die_with_parent(parent: int) -> None:
    """Has the kernel kill this process when its parent's thread ends; exits at once when that happened already."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(128 + signal.SIGKILL)


def state_of(pid: int) -> str:
    """Returns stopped, uninterruptible, gone, or nothing for a process that may run."""
    process = look(pid)
    if process is None:
        return GONE
    return {"T": STOPPED, "t": STOPPED, "D": UNINTERRUPTIBLE}.get(process.state, "")


def catches(pid: int, number: signal.Signals) -> bool:
    """Says whether a process has a handler for a signal: without one, SIGUSR2 would kill it."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("SigCgt:"):
                return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


def out_of_memory_kills(root: Path = Path("/")) -> int:
    """Counts what the kernel's out-of-memory killer ended: in this cgroup where it tells, else on this machine."""
    for path in (*_cgroup_counters(root), root / "proc/vmstat"):
        with contextlib.suppress(OSError, ValueError):
            for line in path.read_text().splitlines():
                name, _, value = line.partition(" ")
                if name == "oom_kill":
                    return int(value)
    return 0


def _cgroup_counters(root: Path) -> Iterator[Path]:
    """Yields the files of this process's cgroups that may hold a line `oom_kill N`: of version 2, or 1."""
    groups = root / "sys/fs/cgroup"
    with contextlib.suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers == "":
                yield groups / path.lstrip("/") / "memory.events"
            elif "memory" in controllers.split(","):
                yield groups / "memory" / path.lstrip("/") / "memory.oom_control"


def _has_entry(pid: int, prefix: bytes) -> bool:
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:  # gone, or another user's
        return False
    return environment.startswith(prefix) or b"\0" + prefix in environment


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
