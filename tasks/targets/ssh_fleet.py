"""Fleet: hosts in the order of their workers; supervisors on them are started, renewed, followed and stopped."""

from __future__ import annotations

import concurrent.futures
import posixpath
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from runtime.contract.errors import InfrastructureError
from runtime.contract.job import LEDGER_VARIABLE, Job
from runtime.contract.names import STREAM_FILE, SUITE_FILE
from tasks.cloud.ssh import Pool
from tasks.cloud.ssh_endpoint import Host
from tasks.cloud.ssh_errors import SshError
from tasks.cloud.ssh_link import Link
from tasks.cloud.ssh_steward import Conversation, ask
from tasks.leases.holding import OVERDUE_S, Holding
from tasks.leases.hosts import PROCESS, RUNS, folder_ref, process_ref
from tasks.targets.jobs import Seat, jobs
from tasks.targets.ssh_follow import Watched, follow_hosts
from tasks.targets.ssh_upload import upload
from tasks.targets.types import Event, Uploaded, WorkloadRef

T = TypeVar("T")

SUITE, CODE = f"bundle/{SUITE_FILE}", "bundle/code"
"""Where suite and code lie, below each worker's own folder."""

OUTPUT = "output"
"""Below a worker's folder: what it writes when it has nowhere else to; it is fetched, and goes with the lease."""

_RENEWAL_FILE = "renewed"
_THREADS = 32
_LOST_MARGIN_S = 15.0
_GONE_S = 5.0

SupervisorCommand = Callable[[str, str], Sequence[str]]


def supervise(python: str, job: str) -> Sequence[str]:
    """Returns the command line of the real supervisor on a host."""
    return (python, "-m", "runtime.supervise", job)


class Fleet:
    """The hosts of one run: host i is worker i's. `lease_s`: how long supervisors live without a renewal;
    `local`: the local directory of each worker, below its folder; empty: it has none.
    """

    def __init__(
        self,
        hosts: Sequence[Host],
        pool: Pool,
        *,
        supervisor: SupervisorCommand = supervise,
        lease_s: float = OVERDUE_S,
        local: str = "",
    ) -> None:
        self.hosts = hosts
        self._pool = pool
        self._supervisor = supervisor
        self._lease_s = lease_s
        self._local = local
        self._homes: dict[Host, str] = {}
        self._renewals: dict[Host, concurrent.futures.Future[None]] = {}
        self._lock = threading.Lock()

    def make_folders(self, lease: Holding) -> None:
        """Makes each worker's folder, through the lease."""
        run_id = lease.lease.run_id or lease.lease.name

        def make(link: Link, worker: int) -> None:
            host = self.hosts[worker]
            ref = folder_ref(host, folder_name(run_id, worker))

            def made() -> str:
                answer = ask(link, host, "make", folder=ref.name, labels=dict(lease.labels))
                if not answer["ours"]:
                    raise InfrastructureError(f"{ref.name} on {host} belongs to another lease")
                return str(ref.uid)

            lease.create(ref.kind, ref.scope, ref.name, made)

        self.everywhere(make)

    def folders(self, run_id: str) -> Mapping[Host, str]:
        """Returns the absolute path of each worker's folder."""
        return {host: self.folder(host, run_id, worker) for worker, host in enumerate(self.hosts)}

    def upload(
        self, run_id: str, files: Mapping[str, str], then: Callable[[Host, Conversation], T]
    ) -> Mapping[Host, T | SshError]:
        """Lays out a bundle in each worker's folder, then does something there; returns what came of it."""
        return upload(self._pool, self.folders(run_id), files, then)

    def start(self, uploaded: Uploaded, attempt: int, lease: Holding, output: str) -> WorkloadRef:
        """Starts a supervisor on each host. Called again for an attempt all of which runs, it only says so;
        where a part of it runs, or another attempt, that is ended first. `output` is where workers write on
        the hosts; empty: each into its own folder.
        """
        run_id = uploaded.workload.run_id
        names = [f"supervisor-a{attempt}-w{worker:04d}" for worker in range(len(self.hosts))]
        uids = self._running(lease, names)
        if not uids:
            self._end_leftovers(lease)
            told = self._jobs(uploaded, attempt, lease.lease.lease_id, output)

            def start(link: Link, worker: int) -> str:
                return self._start_one(link, worker, names[worker], told[worker], lease)

            uids = self.everywhere(start)
        scratch = [
            posixpath.join(self.folder(host, run_id, worker), "scratch", f"a{attempt}")
            for worker, host in enumerate(self.hosts)
        ]
        scope = " ".join(str(host) for host in self.hosts)
        return WorkloadRef("ssh", scope, run_id, " ".join(uids), attempt, tuple(scratch))

    def renew(self, ref: WorkloadRef) -> None:
        """Touches every worker's renewal file, without waiting for hosts that do not answer."""

        def touch(path: str) -> Callable[[Link], None]:
            def task(link: Link) -> None:
                # Without the file the lease was released meanwhile, and nobody is left to be told.
                try:
                    link.touch(path)
                except FileNotFoundError:
                    return

            return task

        for worker, host in enumerate(self.hosts):
            before = self._renewals.get(host)
            if before is None or before.done():
                path = posixpath.join(self.folder(host, ref.name, worker), _RENEWAL_FILE)
                self._renewals[host] = self._pool.submit(host.endpoint, touch(path))

    def follow(
        self, ref: WorkloadRef, since: Mapping[int, int], gone: Callable[[], str] = lambda: ""
    ) -> Iterator[Event]:
        """Yields what workers say after their cursors until all have ended, or `gone` says that hosts are."""
        watched = [
            Watched(worker, host, posixpath.join(scratch, STREAM_FILE), uid)
            for worker, (host, scratch, uid) in enumerate(
                zip(self.hosts, ref.scratch, ref.uid.split(), strict=True)
            )
        ]
        return follow_hosts(self._pool, watched, since, self._lease_s + _LOST_MARGIN_S, gone)

    def stop(self, ref: WorkloadRef, grace_s: float) -> None:
        """Ends supervisors: asks, waits, kills; without any grace it kills, and their workers end with them. Hosts
        that cannot be reached end theirs by themselves.
        """
        uids = ref.uid.split()

        def end(link: Link, worker: int) -> None:
            at_once = grace_s <= 0
            fields: dict[str, Any] = {"uids": [uids[worker]], "force": at_once}
            fields["grace_s"] = _GONE_S if at_once else grace_s
            ask(link, self.hosts[worker], "end", timeout_s=grace_s + 20.0, **fields)

        self.attempt(end)

    def attempt(self, task: Callable[[Link, int], T]) -> Mapping[Host, T | SshError]:
        """Does something on all hosts at once (given the worker's number); returns what came of each."""
        # Not with the pool's threads: what is made here may be swept up again, and that needs them.
        with concurrent.futures.ThreadPoolExecutor(min(_THREADS, len(self.hosts)), "fleet") as threads:
            futures = [
                threads.submit(self._pool.attempt, host.endpoint, _bound(task, worker), len(self.hosts))
                for worker, host in enumerate(self.hosts)
            ]
        return {host: future.result() for host, future in zip(self.hosts, futures, strict=True)}

    def everywhere(self, task: Callable[[Link, int], T]) -> list[T]:
        """Does something on all hosts at once; returns what came of it, in order. Raises when one failed."""
        told = self.attempt(task)
        raise_first(told)
        return [result for result in told.values() if not isinstance(result, SshError)]

    def folder(self, host: Host, run_id: str, worker: int) -> str:
        """Returns the absolute path of a worker's folder."""
        return self.absolute(host, posixpath.join(host.folder, RUNS, folder_name(run_id, worker)))

    def absolute(self, host: Host, path: str) -> str:
        """Returns a path with the `~/` it may begin with replaced by the user's home there."""
        if not path.startswith("~/"):
            return path
        if host not in self._homes:
            self._homes[host] = self._pool.call(host.endpoint, lambda link: link.home())
        return posixpath.join(self._homes[host], path[2:])

    def _running(self, lease: Holding, names: Sequence[str]) -> list[str]:
        """Returns the uids of this attempt's supervisors if all of them run, else nothing."""
        refs = [
            lease.lease.find(PROCESS, str(host), name) for host, name in zip(self.hosts, names, strict=True)
        ]
        uids = [ref.uid for ref in refs if ref is not None and ref.uid is not None]
        if len(uids) < len(names):
            return []

        def lives(link: Link, worker: int) -> bool:
            return bool(ask(link, self.hosts[worker], "living", uids=[uids[worker]])["alive"])

        return uids if all(self.everywhere(lives)) else []

    def _end_leftovers(self, lease: Holding) -> None:
        """Ends supervisors that an earlier attempt or a dead owner left, and strikes them off the lease."""
        left = [ref for ref in lease.lease.resources if ref.kind == PROCESS]
        if not left:
            return
        fields: dict[str, Any] = {
            "ledger": lease.labels[LEDGER_VARIABLE],
            "lease": lease.lease.lease_id,
            "grace_s": 5.0,
        }
        self.everywhere(lambda link, worker: ask(link, self.hosts[worker], "end_lease", **fields))
        for ref in left:
            lease.forget(ref)

    def _jobs(self, uploaded: Uploaded, attempt: int, lease_id: str, output: str) -> list[Job]:
        workload = uploaded.workload
        first = uploaded.workers.items[0].address
        host = self.hosts[0]
        port = self._pool.call(
            host.endpoint, lambda link: ask(link, host, "free_port", program="probe", address=first)["port"]
        )
        address = f"[{first}]" if ":" in first else first
        seats, name = [], f"a{attempt}"
        for worker, host in enumerate(self.hosts):
            folder = self.folder(host, workload.run_id, worker)
            seats.append(
                Seat(
                    suite=posixpath.join(folder, SUITE),
                    code=posixpath.join(folder, CODE),
                    output=self.absolute(host, output) if output else posixpath.join(folder, OUTPUT),
                    scratch=posixpath.join(folder, "scratch", name),
                    python=self.absolute(host, uploaded.image.python),
                    renewal_file=posixpath.join(folder, _RENEWAL_FILE),
                    local_directory=posixpath.join(folder, self._local, name) if self._local else None,
                )
            )
        return jobs(uploaded, attempt, lease_id, f"{address}:{port}", self._lease_s, seats)

    def _start_one(self, link: Link, worker: int, name: str, job: Job, lease: Holding) -> str:
        """Starts one supervisor through the lease; returns its uid."""
        host = self.hosts[worker]
        folder = posixpath.dirname(str(job.renewal_file))
        file = posixpath.join(folder, f"job-a{job.attempt}.json")
        link.write(str(job.renewal_file), b"\n", 0o600)
        link.write(file, job.to_json().encode(), 0o600)
        command = list(self._supervisor(job.python, file))
        env = {"PYTHONPATH": job.code, **lease.labels}

        def make() -> str:
            asked: dict[str, Any] = {"job": file, "command": command, "folder": job.scratch, "env": env}
            return str(ask(link, host, "start", **asked)["uid"])

        place = process_ref(host, name)
        made = lease.create(place.kind, place.scope, name, make, dead_man=place.dead_man)
        assert made.uid is not None
        return made.uid


def folder_name(run_id: str, worker: int) -> str:
    """Returns the name of a worker's folder: hosts may share their home folders."""
    return f"{run_id}-w{worker:04d}"


def raise_first(told: Mapping[Host, object]) -> None:
    """Raises the first host's error, saying how many more there are."""
    errors = [error for error in told.values() if isinstance(error, SshError)]
    if len(errors) == 1:
        raise errors[0]
    if errors:
        more = f"; and {len(errors) - 1} more hosts: " + ", ".join(error.host for error in errors[1:6])
        raise type(errors[0])(errors[0].host, errors[0].reason, errors[0].what + more, errors[0].fix)


def _bound(task: Callable[[Link, int], T], worker: int) -> Callable[[Link], T]:
    return lambda link: task(link, worker)
