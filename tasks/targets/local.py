"""The local target: every worker is a supervisor and a Python process on this machine."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from runtime.contract.errors import InfrastructureError, Problem
from runtime.contract.job import Job, Owner
from runtime.contract.names import STREAM_FILE, SUITE_FILE
from runtime.contract.process import started_at
from tasks.cloud.storage import Folder
from tasks.config.spec import RunSpec
from tasks.config.target import LocalTargetConfig
from tasks.leases import directories, processes
from tasks.leases.holding import OVERDUE_S, Holding
from tasks.leases.machine import this_machine
from tasks.targets import local_plan, local_preflight, local_python
from tasks.targets.jobs import Seat, jobs
from tasks.targets.local_gpus import own_gpus
from tasks.targets.streams import follow_streams
from tasks.targets.types import Bundle, Event, Image, Plan, Uploaded, Worker, Workers, WorkloadRef

LOOPBACK = "127.0.0.1"
_JOB_FILE = "job-a{attempt}-w{worker:04d}.json"
_RENEWAL_FILE = "renewed"

SupervisorCommand = Callable[[str, str], Sequence[str]]
"""From the workers' Python and a job file to the command line of a supervisor."""


class Spawn(Protocol):
    """Starts a program in a folder, with more in its environment; what it says goes to a file there."""

    def __call__(
        self, command: Sequence[str], folder: Path, more: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        """Raises InfrastructureError when it cannot be started."""


def supervise(python: str, job: str) -> Sequence[str]:
    """Returns the command line of the real supervisor."""
    return (python, "-m", "runtime.supervise", job)


class LocalTarget:
    """This machine behind the Protocol. Below `scratch` each run gets a folder for what must not stay.

    That folder holds the job files, which carry secrets, and the file that renewals touch; it goes with
    the lease. Where the output is a path, what workers write lies below the run's own folder and stays.
    """

    def __init__(
        self,
        config: LocalTargetConfig,
        scratch: Path,
        *,
        supervisor: SupervisorCommand = supervise,
        spawn: Spawn | None = None,
        lease_s: float = OVERDUE_S,
    ) -> None:
        self._config = config
        self._scratch = scratch
        self._supervisor = supervisor
        self._spawn = spawn or spawn_session
        self._lease_s = lease_s
        self._children: list[subprocess.Popen[bytes]] = []

    def plan(self, spec: RunSpec) -> Plan:
        """See Target."""
        return local_plan.plan(spec, this_machine(), str(self._folder(spec.run_id)))

    def preflight(self, plan: Plan) -> list[Problem]:
        """See Target. Looks at memory, disk, processors, GPUs, and the Python that the file names."""
        problems = local_preflight.preflight(plan, local_preflight.look(plan.output))
        return [*problems, *local_python.faults(self._config)] if self._config.python else problems

    def image(self) -> Image | None:
        """See Target. Workers run in the Python that the file names, or in a venv that has to be built."""
        return local_python.brought(self._config) if self._config.python else None

    def interpreter(self) -> None:
        """See Target. Workers are here."""

    def acquire(self, plan: Plan, lease: Holding) -> Workers:
        """See Target. Makes the run's folder in scratch; workers are made by `start`."""
        folder = self._folder(lease.lease.run_id or lease.lease.name)
        place = directories.reference(folder)
        lease.create(place.kind, place.scope, place.name, lambda: directories.make(folder, lease.labels))
        lease.live()
        per_slice = plan.workers // plan.slices
        items = tuple(Worker(index, index // per_slice, LOOPBACK) for index in range(plan.workers))
        return Workers(items, LOOPBACK, plan.devices_per_worker, plan.platform)

    def upload(self, workers: Workers, bundle: Bundle, image: Image) -> Uploaded:
        """See Target. Copies the bundle into the run's folder, for that is one place for all workers."""
        into = self._work_folder(bundle.workload.run_id, bundle.workload.output) / "bundle"
        try:
            for name, source in bundle.files.items():
                (into / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, into / name)
        except OSError as error:
            raise InfrastructureError(f"cannot copy the bundle to {into}: {error}") from error
        return Uploaded(str(into / SUITE_FILE), str(into / "code"), workers, image, bundle.workload)

    def start(self, uploaded: Uploaded, attempt: int, lease: Holding) -> WorkloadRef:
        """See Target. Supervisors of this attempt that run for this very process are kept; others
        are ended first."""
        run_id = uploaded.workload.run_id
        names = [f"supervisor-a{attempt}-w{worker.index:04d}" for worker in uploaded.workers.items]
        running = self._running(lease, names)
        if len(running) < len(names):
            self._end_leftovers(lease)
            told = self._jobs(uploaded, attempt, lease)
            running = [
                self._start_one(uploaded, name, job, lease) for name, job in zip(names, told, strict=True)
            ]
        scratch = [
            str(self._worker_scratch(uploaded, attempt, worker.index)) for worker in uploaded.workers.items
        ]
        return WorkloadRef("local", this_machine(), run_id, " ".join(running), attempt, tuple(scratch))

    def renew(self, ref: WorkloadRef) -> None:
        """See Target."""
        # Without the file the lease was released meanwhile, and nobody is left to be told.
        with contextlib.suppress(FileNotFoundError):
            os.utime(self._folder(ref.name) / _RENEWAL_FILE)

    def follow(self, ref: WorkloadRef, since: Mapping[int, int]) -> Iterator[Event]:
        """See Target."""
        streams = {worker: Path(scratch) / STREAM_FILE for worker, scratch in enumerate(ref.scratch)}
        supervisors = ref.uid.split()
        return follow_streams(streams, since, lambda worker: self._lives(supervisors[worker]))

    def fetch(self, ref: WorkloadRef, into: Folder) -> list[Problem]:
        """See Target. Workers here write into the run's folder themselves."""
        return []

    def stop(self, ref: WorkloadRef, grace_s: float) -> None:
        """See Target. Supervisors end their workers; what they leave, releasing the lease finds."""
        _end(ref.uid.split(), grace_s)
        self._reap()

    def _lives(self, uid: str) -> bool:
        self._reap()
        return _lives(uid)

    def _running(self, lease: Holding, names: Sequence[str]) -> list[str]:
        """Returns the uids of this attempt's supervisors, if all run and live for this process;
        else nothing."""
        refs = [lease.lease.find("process", this_machine(), name) for name in names]
        uids = [ref.uid for ref in refs if ref is not None and ref.uid is not None and _lives(ref.uid)]
        ours = {f"{child.pid}" for child in self._children}
        return uids if len(uids) == len(names) and all(uid.partition("@")[0] in ours for uid in uids) else []

    def _end_leftovers(self, lease: Holding) -> None:
        """Ends supervisors that an earlier attempt or a dead owner left, and strikes them off the lease."""
        left = [ref for ref in lease.lease.resources if ref.kind == "process"]
        labelled = [found.ref for found in lease.inventories["process"].list(lease.lease.lease_id)]
        _end([ref.uid for ref in (*left, *labelled) if ref.uid], grace_s=5.0)
        self._reap()
        for ref in left:
            lease.forget(ref)

    def _jobs(self, uploaded: Uploaded, attempt: int, lease: Holding) -> list[Job]:
        workload, workers = uploaded.workload, uploaded.workers
        renewal = self._folder(workload.run_id) / _RENEWAL_FILE
        renewal.touch(mode=0o600)
        me = started_at(os.getpid())
        assert me is not None
        seats = [
            Seat(
                suite=uploaded.suite,
                code=uploaded.code,
                output=workload.output,
                scratch=str(self._worker_scratch(uploaded, attempt, worker.index)),
                python=uploaded.image.python,
                renewal_file=str(renewal),
                local_directory=local_plan.own_folder(workload, worker),
                env=own_gpus(workers, worker, os.environ),
                owner=Owner(os.getpid(), me),
            )
            for worker in workers.items
        ]
        rendezvous = f"{LOOPBACK}:{_free_port()}"
        return jobs(uploaded, attempt, lease.lease.lease_id, rendezvous, self._lease_s, seats)

    def _start_one(self, uploaded: Uploaded, name: str, job: Job, lease: Holding) -> str:
        """Starts one supervisor through the lease; returns its uid."""
        file = self._folder(job.run_id) / _JOB_FILE.format(attempt=job.attempt, worker=job.worker)
        Path(job.scratch).mkdir(parents=True, exist_ok=True)
        _write_secret(file, job.to_json())
        command = self._supervisor(uploaded.image.python, str(file))

        def make() -> str:
            child = self._spawn(command, Path(job.scratch), {"PYTHONPATH": uploaded.code, **lease.labels})
            self._children.append(child)
            start = started_at(child.pid)
            # One that has ended already is not alive under any start time.
            return str(processes.reference(child.pid, start or 0.0).uid)

        place = processes.reference(0, 0.0, name)
        made = lease.create(place.kind, place.scope, name, make, dead_man=place.dead_man)
        assert made.uid is not None
        return made.uid

    def _worker_scratch(self, uploaded: Uploaded, attempt: int, worker: int) -> Path:
        work = self._work_folder(uploaded.workload.run_id, uploaded.workload.output)
        return work / "scratch" / f"a{attempt}-w{worker:04d}"

    def _folder(self, run_id: str) -> Path:
        """Returns the folder that goes with the lease."""
        return self._scratch / run_id

    def _work_folder(self, run_id: str, output: str) -> Path:
        """Returns where bundle and worker scratch lie: below the output where that is on this machine."""
        return self._folder(run_id) if "://" in output else Path(output)

    def _reap(self) -> None:
        """Collects the exit status of supervisors that have ended, so that no zombies stay."""
        self._children = [child for child in self._children if child.poll() is None]


def spawn_session(command: Sequence[str], folder: Path, more: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Starts a program in a session of its own, holding none of our files open. See Spawn."""
    # Prefect's settings hold its password, and workers run code of whoever wrote the suite.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    with (folder / "supervisor.log").open("ab") as log:
        try:
            return subprocess.Popen(
                command,
                env={**inherited, **more},
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        except OSError as error:
            raise InfrastructureError(f"cannot start {command[0]}: {error.strerror}") from error


def _lives(uid: str) -> bool:
    pid, start = processes.identity(uid)
    return started_at(pid) == start


def _end(uids: Sequence[str], grace_s: float) -> None:
    """Asks processes to end, waits at most `grace_s` seconds, and kills."""
    for uid in uids:
        processes.send(uid, force=False)
    deadline = time.monotonic() + grace_s
    while any(_lives(uid) for uid in uids) and time.monotonic() < deadline:
        time.sleep(0.05)
    for uid in uids:
        processes.send(uid, force=True)
    while any(_lives(uid) for uid in uids) and time.monotonic() < deadline + 5.0:
        time.sleep(0.05)


def _write_secret(file: Path, content: str) -> None:
    """Replaces a file by one that only this user can read."""
    file.unlink(missing_ok=True)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(content)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port
