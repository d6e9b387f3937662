"""What a lease has on a host, processes and folders, and what the host is good for: sent over SSH to its Python.

Needs Linux, Python 3.9 or newer and its standard library, and nothing of ours: hosts hold none of our code
before it is uploaded, nor after it was deleted. answers.py, sent with it, calls what is in OPERATIONS.
"""

# Each call is a process of its own, and pathlib is slow to import.
# ruff: noqa: PTH103, PTH108, PTH110, PTH111, PTH112, PTH114, PTH115, PTH118, PTH120, PTH123, PTH208

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from typing import Any

LEASE, LEDGER = "SLICEBENCH_LEASE", "SLICEBENCH_LEDGER_ID"
LABEL = ".slicebench-lease.json"

_UNMOUNT_S = 20.0

Answer = dict[str, Any]


def machine() -> str:
    """Names this boot of this host, and the view on processes we have of it."""
    with open("/proc/sys/kernel/random/boot_id") as stream:
        boot = stream.read().strip()
    return hashlib.sha256((boot + os.readlink("/proc/self/ns/pid")).encode()).hexdigest()[:12]


def started(pid: int) -> float | None:
    """Returns seconds from boot to the start of a process; None when it is gone or a zombie."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stream:
            stat = stream.read()
    except OSError:
        return None
    fields = stat[stat.rindex(b")") + 2 :].split()
    return None if fields[0] in (b"Z", b"X") else int(fields[19]) / os.sysconf("SC_CLK_TCK")


def parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as stream:
            stat = stream.read()
    except OSError:
        return 0
    return int(stat[stat.rindex(b")") + 2 :].split()[1])


def environment(pid: int) -> dict[str, str]:
    try:
        with open(f"/proc/{pid}/environ", "rb") as stream:
            pairs = (entry.partition(b"=") for entry in stream.read().split(b"\0"))
            return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}
    except OSError:
        return {}


def uid_of(pid: int, start: float) -> str:
    return f"{pid}@{start:.2f}@{machine()}"


def lives(uid: str) -> bool:
    pid, start, where = uid.split("@")
    return where == machine() and started(int(pid)) == float(start)


def labelled(ledger: str) -> dict[int, str]:
    """Returns pid → lease of what carries a label of this ledger or descends from it; never of this process."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    labels = {pid: environment(pid) for pid in pids}
    found = {pid: labels[pid].get(LEASE, "") for pid in pids if labels[pid].get(LEDGER) == ledger}
    if found:
        parents = {pid: parent(pid) for pid in pids}
        for pid in pids:
            line = [pid]
            while (
                line[-1] not in found and parents.get(line[-1], 0) and LEDGER not in labels.get(line[-1], {})
            ):
                line.append(parents[line[-1]])
            if line[-1] in found:
                found.update(dict.fromkeys(line[:-1], found[line[-1]]))
    me = os.getpid()
    while me:
        found.pop(me, None)
        me = parent(me)
    return found


def look(root: str, ledger: str, lease: str | None, uids: list[str]) -> Answer:
    """Returns labelled processes and folders, and which of `uids` live. `lease` None: of all leases."""
    found = labelled(ledger)
    processes = []
    for pid, whose in found.items():
        start = started(pid)
        if start is not None and whose and lease in (None, whose):
            topmost = parent(pid) not in found
            processes.append({"lease": whose, "pid": pid, "uid": uid_of(pid, start), "topmost": topmost})
    folders = []
    root = os.path.expanduser(root)
    for name in sorted(os.listdir(root)) if os.path.isdir(root) else ():
        holder = lease_of(os.path.join(root, name), ledger)
        if holder and lease in (None, holder):
            folders.append({"lease": holder, "name": name})
    return {"processes": processes, "folders": folders, "alive": [uid for uid in uids if lives(uid)]}


def end(uids: list[str], force: bool, grace_s: float = 0.0) -> Answer:
    """Asks processes to end, or kills them; with `grace_s` waits so long and then kills. Returns who still lives."""
    for uid in uids:
        _signal(uid, signal.SIGKILL if force else signal.SIGTERM)
    if grace_s and _wait(uids, grace_s):
        for uid in uids:
            _signal(uid, signal.SIGKILL)
        _wait(uids, 5.0)
    return living(uids)


def living(uids: list[str]) -> Answer:
    """Returns which of these processes live."""
    return {"alive": [uid for uid in uids if lives(uid)]}


def end_lease(ledger: str, lease: str, grace_s: float) -> Answer:
    """Ends all that is labelled with a lease: the topmost are asked and may end the others; then all are killed."""
    found = {pid: started(pid) for pid, whose in labelled(ledger).items() if whose == lease}
    uids = {pid: uid_of(pid, start) for pid, start in found.items() if start is not None}
    end([uid for pid, uid in uids.items() if parent(pid) not in uids], False, grace_s)
    return end(list(uids.values()), True, 1.0)


def _wait(uids: list[str], limit_s: float) -> bool:
    until = time.monotonic() + limit_s
    while any(lives(uid) for uid in uids):
        if time.monotonic() > until:
            return True
        time.sleep(0.05)
    return False


def _signal(uid: str, number: int) -> None:
    try:
        # Held open from before the check until the signal, so that the pid cannot become another's between.
        handle = os.pidfd_open(int(uid.split("@")[0]))
    except ProcessLookupError:
        return
    try:
        if lives(uid):
            signal.pidfd_send_signal(handle, number)
            signal.pidfd_send_signal(handle, signal.SIGCONT)
    except ProcessLookupError:
        pass
    finally:
        os.close(handle)


def start(job: str, command: list[str], folder: str, env: dict[str, str]) -> Answer:
    """Starts a program in a session of its own; it outlives the connection. One that runs this job is kept."""
    for pid, whose in labelled(env[LEDGER]).items():
        if whose == env[LEASE] and _arguments(pid)[-1:] == [job]:
            begun = started(pid)
            if begun is not None and parent(pid) not in labelled(env[LEDGER]):
                return {"uid": uid_of(pid, begun), "was_there": True}
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "supervisor.log"), "ab") as log:
        child = subprocess.Popen(
            command,
            cwd=folder,
            env=dict(os.environ, **env),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    return {"uid": uid_of(child.pid, started(child.pid) or 0.0), "was_there": False}


def _arguments(pid: int) -> list[str]:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as stream:
            return os.fsdecode(stream.read()).rstrip("\0").split("\0")
    except OSError:
        return []


def lease_of(folder: str, ledger: str) -> str | None:
    try:
        with open(os.path.join(folder, LABEL)) as stream:
            label = json.load(stream)
    except (OSError, ValueError):
        return None
    return str(label.get(LEASE)) if label.get(LEDGER) == ledger else None


def make(folder: str, labels: dict[str, str]) -> Answer:
    """Makes a folder that only this user enters, labelled with a lease; returns where it is."""
    folder = os.path.expanduser(folder)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    file, text = os.path.join(folder, LABEL), json.dumps(labels, sort_keys=True)
    if not os.path.exists(file):
        with open(file, "w") as stream:
            stream.write(text)
    return {"path": folder, "ours": lease_of(folder, labels[LEDGER]) == labels[LEASE]}


def remove(folder: str, ledger: str) -> Answer:
    """Deletes a labelled folder, its label last: a deletion cut short is found again."""
    folder = os.path.expanduser(folder)
    if lease_of(folder, ledger):
        _unmount_below(folder)
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            if name != LABEL:
                shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)
        shutil.rmtree(folder)
    return {}


def _unmount_below(folder: str) -> None:
    """Takes directories in memory out of a folder, with what is in them; root made them."""
    inside = os.path.realpath(folder) + os.sep
    with open("/proc/self/mounts") as stream:
        mounted = [line.split()[1].replace("\\040", " ") for line in stream]
    for path in (one for one in mounted if one.startswith(inside)):
        words = [] if os.getuid() == 0 else ["sudo", "-n"]
        try:
            ran = subprocess.run(
                [*words, "umount", path], capture_output=True, check=False, timeout=_UNMOUNT_S
            )
        except subprocess.TimeoutExpired:
            raise OSError(
                errno.ETIMEDOUT, f"{path} cannot be unmounted: no answer in {_UNMOUNT_S:g} s"
            ) from None
        if ran.returncode:
            raise OSError(errno.EPERM, f"{path} cannot be unmounted: {ran.stderr.decode().strip()}")


def about(folder: str, names: list[str]) -> Answer:
    """Returns what this host is good for: versions in this very Python, free bytes, processors, GPUs."""
    from importlib import metadata

    versions = {"python": ".".join(str(part) for part in sys.version_info[:3])}
    for name in names:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    there = os.path.expanduser(folder)
    while not os.path.exists(there):
        there = os.path.dirname(there)
    space = os.statvfs(there)
    with open("/proc/meminfo") as stream:
        memory = next(int(line.split()[1]) for line in stream if line.startswith("MemAvailable"))
    listed = "/proc/driver/nvidia/gpus"
    # Containers often have the devices without the driver's list.
    devices = [name for name in os.listdir("/dev") if name.startswith("nvidia") and name[6:].isdigit()]
    return {
        "versions": versions,
        "disk": space.f_bavail * space.f_frsize,
        "memory": memory * 1024,
        "processors": len(os.sched_getaffinity(0)),
        "gpus": max(len(devices), len(os.listdir(listed)) if os.path.isdir(listed) else 0),
        "writable": os.access(there, os.W_OK),
        "machine": machine(),
    }


OPERATIONS = {
    operation.__name__: operation for operation in (look, end, living, end_lease, start, make, remove, about)
}
