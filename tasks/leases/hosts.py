"""The inventories of what runs and lies on hosts that are reached over SSH, by the labels it carries there."""

from __future__ import annotations

import posixpath
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from runtime.contract.errors import InfrastructureError
from tasks.cloud.ssh_book import AddressBook
from tasks.cloud.ssh_endpoint import Host
from tasks.config.home import hosts_folder
from tasks.leases.inventory import Found, Inventories, Pace
from tasks.leases.lease import Lease
from tasks.leases.ledger import Ledger
from tasks.leases.resource import ResourceRef

if TYPE_CHECKING:
    from concurrent.futures import Future

    from tasks.cloud.ssh_link import Link

PROCESS, FOLDER = "host_process", "host_directory"
RUNS = "runs"
"""Below a host's folder: one labelled folder for each worker of each lease."""

_LOOKED_BACK_S = 86400.0
_FRESH_S = 0.5
_ANSWER_S = 30.0
_PACE = Pace(look_every_s=0.2, goes_within_s=120.0, remote=True)
"""A host that a benchmark has all of is slow to look through its processes: time for several tries."""


@dataclass(frozen=True)
class _Seen:
    """What one host answered about all leases, or why it did not; `at` is monotonic time.

    What was seen to be gone stays gone, so an answer that is a moment old still proves it.
    """

    at: float
    uids: frozenset[str]
    answer: Mapping[str, Any]
    error: InfrastructureError | None = None

    def holds(self, what: str, lease_id: str | None) -> list[Mapping[str, Any]]:
        """Returns processes or folders with the label of a lease (None: of any)."""
        return [one for one in self.answer.get(what, ()) if lease_id in (None, one["lease"])]


class Hosts:
    """The hosts that a ledger speaks of. Safe to use from several threads."""

    def __init__(self, ledger: Ledger, book: AddressBook) -> None:
        self.ledger_id = ledger.id
        self._ledger = ledger
        self._book = book
        self._seen: dict[str, _Seen] = {}
        self._failed: dict[str, BaseException] = {}
        self._lock = threading.Lock()

    def find(self, scope: str) -> Host | None:
        """Returns how to get to a host, or None when this machine does not know it."""
        return self._book.find(scope)

    def known(self, ref: ResourceRef) -> Host:
        """Returns the host that something is on. Raises InfrastructureError when this machine does not know it."""
        host = self.find(ref.scope)
        if host is None:
            raise InfrastructureError(f"this machine does not know how to get to {ref.scope}")
        return host

    def survey(self, lease_id: str | None) -> Mapping[Host, _Seen]:
        """Asks all hosts at once that may hold something of a lease (None: of any).

        One that does not answer is told by `look`: it has a resource in the ledger, for that is written first.
        """
        uids: dict[Host, frozenset[str]] = {}
        for lease in self._leases(lease_id):
            for ref in lease.resources:
                host = self.find(ref.scope) if ref.kind in (PROCESS, FOLDER) else None
                if host is not None:
                    own = {ref.uid} if ref.uid and ref.kind == PROCESS else set()
                    uids[host] = uids.get(host, frozenset()) | own
        self._ask({host: known for host, known in uids.items() if self._fresh(host, known) is None})
        return {host: seen for host in uids if (seen := self._seen.get(str(host)))}

    def look(self, host: Host, uid: str | None = None) -> _Seen:
        """Returns what a host answered a moment ago, else asks it now. Raises InfrastructureError."""
        uids = frozenset({uid} if uid else ())
        seen = self._fresh(host, uids) or self._ask({host: uids})[host]
        if seen.error is not None:
            raise seen.error
        return seen

    def order(self, host: Host, op: str, **fields: Any) -> None:
        """Has something done without waiting for it. Raises what became of an earlier order to that host."""
        from tasks.cloud.ssh import shared_pool
        from tasks.cloud.ssh_steward import ask

        def done(future: Future[Any]) -> None:
            with self._lock:
                self._seen.pop(str(host), None)
                if error := future.exception():
                    self._failed[str(host)] = error

        future = shared_pool().submit(
            host.endpoint, lambda link: ask(link, host, op, timeout_s=_ANSWER_S, **fields)
        )
        future.add_done_callback(done)
        with self._lock:
            self._seen.pop(str(host), None)
            error = self._failed.pop(str(host), None)
        if error is not None:
            raise error

    def _leases(self, lease_id: str | None) -> Sequence[Lease]:
        lease = self._ledger.read(lease_id) if lease_id else None
        if lease is not None:
            return [lease]
        since = time.time() - _LOOKED_BACK_S
        return [lease for lease in self._ledger.listing().leases if lease.renewed_at >= since]

    def _fresh(self, host: Host, uids: frozenset[str]) -> _Seen | None:
        seen = self._seen.get(str(host))
        fresh = (
            seen is not None and time.monotonic() - seen.at < _FRESH_S and (seen.error or uids <= seen.uids)
        )
        return seen if fresh else None

    def _ask(self, uids: Mapping[Host, frozenset[str]]) -> Mapping[Host, _Seen]:
        """Asks hosts what they hold, and which of `uids` live there."""
        if not uids:
            return {}
        from tasks.cloud.ssh import shared_pool
        from tasks.cloud.ssh_steward import ask

        def look(host: Host) -> Callable[[Link], dict[str, Any]]:
            root, known = posixpath.join(host.folder, RUNS), sorted(uids[host])
            fields: dict[str, Any] = {"root": root, "ledger": self.ledger_id, "lease": None, "uids": known}
            return lambda link: ask(link, host, "look", timeout_s=_ANSWER_S, **fields)

        told = shared_pool().all({host.endpoint: look(host) for host in uids})
        seen = {}
        for host, known in uids.items():
            answer = told[host.endpoint]
            error = answer if isinstance(answer, InfrastructureError) else None
            seen[host] = _Seen(
                time.monotonic(), known, {} if isinstance(answer, InfrastructureError) else answer, error
            )
        with self._lock:
            self._seen.update({str(host): one for host, one in seen.items()})
        return seen


class HostProcessInventory:
    """Labelled processes on hosts, and what descends from them. See Inventory."""

    kind = PROCESS
    pace = _PACE
    settle_s = 2.0
    after: frozenset[str] = frozenset()

    def __init__(self, hosts: Hosts) -> None:
        self._hosts = hosts
        self._below: set[str] = set()

    def sees(self, scope: str) -> bool:
        """See Inventory. The scope is a host; this machine must know how to get there."""
        return self._hosts.find(scope) is not None

    def list(self, lease_id: str | None) -> Sequence[Found]:
        """See Inventory. Of a host that does not answer nothing is listed; `get` raises for what is there."""
        found = []
        for host, seen in self._hosts.survey(lease_id).items():
            for process in seen.holds("processes", lease_id):
                if not process["topmost"]:
                    self._below.add(process["uid"])
                found.append(
                    Found(process["lease"], process_ref(host, f"pid {process['pid']}", process["uid"]))
                )
        return found

    def get(self, ref: ResourceRef) -> ResourceRef | None:
        """See Inventory. One that never got a uid is found by its label only, through `list`."""
        seen = self._hosts.look(self._hosts.known(ref), ref.uid)
        return ref if ref.uid in seen.answer["alive"] else None

    def delete(self, ref: ResourceRef, *, force: bool) -> None:
        """See Inventory. Not forced, only the topmost labelled processes are asked: they end those below."""
        if ref.uid is not None and (force or ref.uid not in self._below):
            self._hosts.order(self._hosts.known(ref), "end", uids=[ref.uid], force=force)


class HostFolderInventory:
    """Labelled folders on hosts. See Inventory."""

    kind = FOLDER
    pace = _PACE
    settle_s = 0.0
    after = frozenset({PROCESS})

    def __init__(self, hosts: Hosts) -> None:
        self._hosts = hosts

    def sees(self, scope: str) -> bool:
        """See Inventory."""
        return self._hosts.find(scope) is not None

    def list(self, lease_id: str | None) -> Sequence[Found]:
        """See Inventory. Of a host that does not answer nothing is listed; `get` raises for what is there."""
        return [
            Found(folder["lease"], folder_ref(host, folder["name"]))
            for host, seen in self._hosts.survey(lease_id).items()
            for folder in seen.holds("folders", lease_id)
        ]

    def get(self, ref: ResourceRef) -> ResourceRef | None:
        """See Inventory. Only a folder that still carries a label of this ledger is ours."""
        names = [folder["name"] for folder in self._hosts.look(self._hosts.known(ref)).answer["folders"]]
        return ref if posixpath.basename(ref.name) in names else None

    def delete(self, ref: ResourceRef, *, force: bool) -> None:
        """See Inventory."""
        self._hosts.order(self._hosts.known(ref), "remove", folder=ref.name, ledger=self._hosts.ledger_id)


def process_ref(host: Host, name: str, uid: str | None = None) -> ResourceRef:
    """Returns a process on a host as a resource; its uid is pid@start@boot."""
    return ResourceRef(PROCESS, str(host), name, uid, dead_man="ends itself when nobody renews its lease")


def folder_ref(host: Host, name: str) -> ResourceRef:
    """Returns a worker's folder on a host as a resource; `name` is the last part of its path."""
    path = posixpath.join(host.folder, RUNS, name)
    return ResourceRef(FOLDER, str(host), path, uid=f"{host}:{path}")


def inventories(ledger: Ledger) -> Inventories:
    """Returns the inventories of hosts; both ask each host once."""
    hosts = Hosts(ledger, AddressBook(hosts_folder()))
    return {PROCESS: HostProcessInventory(hosts), FOLDER: HostFolderInventory(hosts)}
