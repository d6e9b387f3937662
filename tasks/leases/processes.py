"""The inventory of local processes: labelled by their environment, known by pid and start time."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Mapping, Sequence

import psutil

from runtime.contract.errors import InfrastructureError
from runtime.contract.job import LEASE_VARIABLE, LEDGER_VARIABLE
from runtime.contract.process import started_at
from tasks.leases.inventory import HERE, Found
from tasks.leases.machine import this_machine
from tasks.leases.resource import ResourceRef


class ProcessInventory:
    """Processes of this machine whose environment names the ledger. See Inventory."""

    kind = "process"
    pace = HERE
    settle_s = 1.0
    after: frozenset[str] = frozenset()

    def __init__(self, ledger_id: str) -> None:
        self._ledger_id = ledger_id

    def sees(self, scope: str) -> bool:
        """See Inventory. The scope of a process is its host."""
        return scope == this_machine()

    def list(self, lease_id: str | None) -> Sequence[Found]:
        """See Inventory. This process and its ancestors are never among them: nobody ends itself by label.

        What descends from a labelled process is ours as well, even when it emptied its environment.
        """
        own = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
        leases: dict[int, str] = {}
        for pid in psutil.pids():
            labels = environment(pid)
            if labels.get(LEDGER_VARIABLE) == self._ledger_id:
                leases[pid] = labels.get(LEASE_VARIABLE, "")
        if leases:
            self._add_unlabelled_children(leases)
        found = []
        for pid, lease in leases.items():
            start = started_at(pid)
            if pid not in own and start is not None and lease and lease_id in (None, lease):
                found.append(Found(lease, reference(pid, start)))
        return found

    def _add_unlabelled_children(self, leases: dict[int, str]) -> None:
        """Adds processes without any label whose parent, or its parent …, is in `leases`, under its
        lease."""
        parents = _parents()
        for pid in parents:
            line = [pid]
            while line[-1] not in leases and line[-1] in parents and parents[line[-1]] not in line:
                line.append(parents[line[-1]])
            if line[-1] in leases and not any(LEDGER_VARIABLE in environment(one) for one in line[:-1]):
                leases.update(dict.fromkeys(line[:-1], leases[line[-1]]))

    def get(self, ref: ResourceRef) -> ResourceRef | None:
        """See Inventory. A process that never got a uid is found by its label only, through `list`."""
        if ref.uid is None:
            return None
        pid, start = identity(ref.uid)
        return ref if started_at(pid) == start else None

    def delete(self, ref: ResourceRef, *, force: bool) -> None:
        """See Inventory. Not forced, only the topmost labelled processes are asked: they end those
        below."""
        if ref.uid is not None and (force or not self._has_labelled_parent(identity(ref.uid)[0])):
            send(ref.uid, force=force)

    def _has_labelled_parent(self, pid: int) -> bool:
        try:
            parent = psutil.Process(pid).ppid()
        except psutil.Error:
            return False
        return environment(parent).get(LEDGER_VARIABLE) == self._ledger_id and parent != os.getpid()


def reference(pid: int, start: float, name: str | None = None) -> ResourceRef:
    """Returns a process as a resource; its name is told by whoever started it, else it is its pid."""
    return ResourceRef(
        kind="process",
        scope=this_machine(),
        name=name or f"pid {pid}",
        uid=f"{pid}@{start:.2f}",
        dead_man="ends itself when its owner is gone or no longer renews",
    )


def identity(uid: str) -> tuple[int, float]:
    """Returns pid and start (seconds after boot) of a process's uid."""
    pid, _, start = uid.partition("@")
    return int(pid), float(start)


def send(uid: str, *, force: bool) -> None:
    """Asks a process to end, or (`force`) ends it. One that is gone is no error, and its pid's next
    user is safe."""
    pid, start = identity(uid)
    try:
        # Held open from before the check until the signal, so that the pid cannot become another's between.
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        with contextlib.suppress(ProcessLookupError):
            if started_at(pid) == start:
                signal.pidfd_send_signal(descriptor, signal.SIGKILL if force else signal.SIGTERM)
                signal.pidfd_send_signal(descriptor, signal.SIGCONT)
    except PermissionError as error:
        raise InfrastructureError(f"process {pid} may not be ended by this user: {error.strerror}") from error
    finally:
        os.close(descriptor)


def _parents() -> Mapping[int, int]:
    """Returns the parent of every process."""
    parents = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            parents[process.pid] = process.ppid()
    return parents


def environment(pid: int) -> Mapping[str, str]:
    """Returns the environment a process started with; empty when it is gone, a zombie, or another
    user's."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as stream:  # noqa: PTH123 (called for every process there is)
            content = stream.read()
    except OSError:
        return {}
    pairs = (entry.partition(b"=") for entry in content.split(b"\0") if entry)
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}
