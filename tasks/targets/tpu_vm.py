"""The TPU VM target: slices of Cloud TPU, made or adopted; on each of their hosts a worker, entered over SSH."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from runtime.contract.errors import InfrastructureError, Problem
from tasks.cloud.google_place import choose_project, choose_zone
from tasks.cloud.ssh import Pool
from tasks.cloud.ssh_book import AddressBook
from tasks.cloud.ssh_endpoint import Endpoint
from tasks.cloud.ssh_keys import make_key
from tasks.cloud.storage import Folder
from tasks.cloud.tpu import CloudTpu
from tasks.cloud.tpu_errors import TpuError
from tasks.config.spec import RunSpec
from tasks.config.ssh_target import SshTargetConfig
from tasks.config.tpu_target import TpuVmTargetConfig
from tasks.leases import directories
from tasks.leases.holding import OVERDUE_S, Holding
from tasks.leases.hosts import FOLDER, PROCESS
from tasks.leases.resource import ResourceRef
from tasks.leases.shares import share
from tasks.leases.tpu_entries import enter
from tasks.leases.tpu_stay import LOOK_S, Stay
from tasks.leases.tpus import NODE, QUEUED
from tasks.targets import ssh_plan, tpu_plan, tpu_preflight, tpu_python
from tasks.targets.ssh import SshTarget
from tasks.targets.ssh_fleet import SupervisorCommand, supervise
from tasks.targets.streams import SILENT
from tasks.targets.tpu_access import Access, endpoints, metadata_of_made
from tasks.targets.tpu_capacity import Desk, Slices
from tasks.targets.tpu_hosts import check_adopted, hosts_config, wait_for_login
from tasks.targets.tpu_setup import script_of, set_up
from tasks.targets.tpu_watch import WATCH_S, Watch, gone_for_good
from tasks.targets.types import (
    PREEMPTED,
    Bundle,
    Event,
    Exited,
    Image,
    Interpreter,
    Plan,
    State,
    Uploaded,
    Workers,
    WorkloadRef,
)

KEY_FILE, HOSTS_FILE = "id_ed25519", "hosts.json"


class TpuVmTarget:
    """Slices behind the Protocol. In `scratch` each lease has a folder with its key and how its hosts are reached;
    it goes with the lease. Once there are hosts, everything on them is the SSH target's.
    """

    def __init__(
        self,
        config: TpuVmTargetConfig,
        scratch: Path,
        pool: Pool,
        book: AddressBook,
        *,
        say: Callable[[str], None] = lambda line: None,
        supervisor: SupervisorCommand = supervise,
        lease_s: float = OVERDUE_S,
        poll_s: float = 5.0,
        watch_s: float = WATCH_S,
    ) -> None:
        if config.existing is None and not config.zones:
            config = config.model_copy(update={"zones": (choose_zone().value,)})
        self._config = config
        self._scratch = scratch
        self._pool = pool
        self._book = book
        self._say = say
        self._supervisor = supervisor
        self._lease_s = lease_s
        self._poll_s = poll_s
        self._watch_s = watch_s
        self._inner: SshTarget | None = None
        self._lease: Holding | None = None
        self._lost: WorkloadRef | None = None
        self._silent = False

    def plan(self, spec: RunSpec) -> Plan:
        """See Target."""
        return tpu_plan.plan(spec, self._config, choose_project(self._config.project).value)

    def preflight(self, plan: Plan) -> list[Problem]:
        """See Target. Asks the API about zones, types and versions, or about what exists."""
        if self._lost is not None and self._config.existing is not None:
            return []  # it was there, and was taken away under the run: acquire says what became of it
        return tpu_preflight.preflight(self._tpu(), self._config, plan)

    def image(self) -> Image | None:
        """See Target. The Python that the file names, if it names one, is looked at once there are hosts."""
        python = self._config.python
        if python is None:
            return None
        return Image("venv", f"{python} on the TPU VMs", python, {"ref": "the TPU VMs' own Python"}, {}, True)

    def interpreter(self) -> Interpreter | None:
        """See Target. There are no hosts yet to be asked: it is the one that they will be seen to have."""
        return tpu_python.promised(self._config) if self._config.python is None else None

    def acquire(self, plan: Plan, lease: Holding) -> Workers:
        """See Target. Called again it goes on with what the lease has; slices that were taken away are replaced."""
        self._lease = lease
        folder = self._folder(lease.lease.name)  # kept hardware is entered with the key it was made with
        place = directories.reference(folder)
        lease.create(place.kind, place.scope, place.name, lambda: directories.make(folder, lease.labels))
        public = make_key(folder / KEY_FILE, lease.lease.lease_id)
        slices = self._get_slices(plan, lease, public)
        access = Access(
            self._config.user,
            str(folder / KEY_FILE),
            self._config.ssh_port,
            self._config.addresses,
        )
        hosts = [endpoints(self._tpu(), node, access, poll_s=self._poll_s) for node in slices.nodes]
        config = hosts_config(self._config, plan, slices.nodes, hosts)
        (folder / HOSTS_FILE).write_text(config.model_dump_json(indent=1))
        with self._staying() as stay:
            self._prepare([endpoint for of_slice in hosts for endpoint in of_slice], ours=slices.ours)
            stay.check()
            self._contain(lease)
            self._inner = self._ssh(config, folder)
            return self._inner.acquire(plan, lease)

    def upload(self, workers: Workers, bundle: Bundle, image: Image) -> Uploaded:
        """See Target."""
        run_id = bundle.workload.run_id
        with self._staying() as stay:
            uploaded = self._of(run_id).upload(workers, bundle, image)
            stay.check()
            return uploaded

    def start(self, uploaded: Uploaded, attempt: int, lease: Holding) -> WorkloadRef:
        """See Target."""
        self._lease = lease
        self._contain(lease)
        return self._of(uploaded.workload.run_id).start(uploaded, attempt, lease)

    def renew(self, ref: WorkloadRef) -> None:
        """See Target."""
        self._of(ref.name).renew(ref)

    def follow(self, ref: WorkloadRef, since: Mapping[int, int]) -> Iterator[Event]:
        """See Target. The service is asked meanwhile whether it took slices away: then this ends, at once.

        Slices of ours with a host that fell silent are given up too, though the service calls them READY; and those
        that are not ours once another run is seen to use them.
        """
        failed = silent = False
        with (
            Watch(self._tpu(), self._resources(self._lease), self._watch_s) as watch,
            self._staying() as stay,
        ):
            taken = lambda: watch.reason() or stay.reason()  # noqa: E731
            for event in self._of(ref.name).follow(ref, since, taken):
                failed = failed or (isinstance(event, Exited) and event.code != 0)
                silent = silent or (isinstance(event, Exited) and event.code == SILENT)
                yield event
            if not failed:
                return
            reason = watch.look() or stay.reason()
        if not reason and silent and self._own() is not None:
            self._silent = True
            reason = "a worker's host does not answer any more: its slices are replaced"
        if reason:
            self._lost = ref
            if self._own() is None:
                self._strike_off_what_went(ref.name)
            yield State(PREEMPTED, reason)

    def fetch(self, ref: WorkloadRef, into: Folder) -> list[Problem]:
        """See Target. Without an output of its own there is nothing to fetch, and the hosts may be gone."""
        return self._of(ref.name).fetch(ref, into) if ref.output else []

    def stop(self, ref: WorkloadRef, grace_s: float) -> None:
        """See Target. What is left of slices that were taken away goes as a whole: nobody is asked there."""
        lost = self._lost is not None and (self._lost.name, self._lost.attempt) == (ref.name, ref.attempt)
        if not lost or self._left_on_hosts():
            self._of(ref.name).stop(ref, grace_s)

    def _tpu(self) -> CloudTpu:
        return CloudTpu(choose_project(self._config.project).value)

    def _get_slices(self, plan: Plan, lease: Holding, public_key: str) -> Slices:
        """Makes or adopts the slices, and sees to it that our key opens them."""
        user = self._config.user
        metadata = metadata_of_made(user, public_key)
        desk = Desk(self._tpu(), self._config, lease, self._say, metadata, self._poll_s)
        if self._silent and (own := self._own()) is not None:
            self._say(f"giving back {own.kind} {own.name}, which has a host that does not answer")
            lease.discard(own)
        self._silent = False
        slices = desk.acquire()
        if not slices.ours:
            check_adopted(self._config, slices.nodes)
            for node in slices.nodes:
                share(lease, node.labels)  # one that slicebench made has an expiry of its own
            for node in slices.nodes:  # one after the other: changes at once refuse each other
                enter(
                    self._tpu(), lease, node, user, public_key,
                    wait_s=plan.lock_wait_s, say=self._say, settle_s=min(3.0, self._poll_s), poll_s=self._poll_s,
                )  # fmt: skip
        return slices

    def _contain(self, lease: Holding) -> None:
        """What is on machines of ours goes with them; on machines that stay it is given back by itself, for as long
        as they are there.
        """
        machines = self._own() or next(iter(self._resources(self._lease)), None)
        if machines is not None:
            lease.contain(machines, frozenset({PROCESS, FOLDER}))

    def _staying(self) -> Stay:
        """Returns what keeps up our claim on TPUs that are not ours, for as long as a step takes."""
        public = ""
        if self._lease is not None:
            file = (self._folder(self._lease.lease.name) / KEY_FILE).with_suffix(".pub")
            public = file.read_text().strip() if file.exists() else ""
        project = choose_project(self._config.project).value
        return Stay(project, self._lease, self._config.user, public, look_s=min(LOOK_S, 4 * self._watch_s))

    def _prepare(self, hosts: Sequence[Endpoint], *, ours: bool) -> None:
        """Brings hosts to where anything can be run on them: they let us in, are set up, and have a Python."""
        wait_for_login(self._pool, hosts, self._say, self._poll_s, ours=ours)
        for script in self._config.setup:
            limit_s = int(self._config.limits.apt_locks_s)
            set_up(self._pool, hosts, script_of(script), self._say, locks_s=limit_s)
        if self._config.python is None:
            tpu_python.bring_python(self._pool, hosts, self._config, self._say)

    def _strike_off_what_went(self, run_id: str) -> None:
        """Takes off the lease what was on TPUs that are not ours and will not run again: nobody can look there."""
        assert self._lease is not None
        try:
            gone = gone_for_good(self._tpu(), self._resources(self._lease))
        except TpuError:
            return  # nobody can say it: the hosts are asked, and wait for an answer
        config = self._config_of(run_id)
        scopes = {str(ssh_plan.host_of(config, host)) for host in config.hosts if host.group in gone}
        for ref in [one for one in self._lease.lease.resources if one.kind in (PROCESS, FOLDER)]:
            if ref.scope in scopes:
                self._lease.forget(ref)
        if gone:
            names = ", ".join(sorted(gone))
            self._say(
                f"{names} was taken away; it is not ours, and stays as it is; what was on it went with it"
            )

    def _left_on_hosts(self) -> bool:
        """Says whether there is something on hosts that can and must be asked to end."""
        resources = self._lease.lease.resources if self._lease else ()
        return self._own() is None and any(one.kind == PROCESS for one in resources)

    def _own(self) -> ResourceRef | None:
        """Returns what the lease made; None: nothing so far, or slices that exist without it."""
        return next((ref for ref in self._resources(self._lease) if ref.ours), None)

    def _resources(self, lease: Holding | None) -> list[ResourceRef]:
        return [ref for ref in lease.lease.resources if ref.kind in (NODE, QUEUED)] if lease else []

    def _of(self, run_id: str) -> SshTarget:
        """Returns the hosts of a run; another process may have got them."""
        if self._inner is None:
            self._inner = self._ssh(self._config_of(run_id), self._folder(run_id))
        return self._inner

    def _config_of(self, run_id: str) -> SshTargetConfig:
        try:
            return SshTargetConfig.model_validate_json((self._folder(run_id) / HOSTS_FILE).read_text())
        except OSError as error:
            raise InfrastructureError(f"the hosts of run {run_id} are not known here: {error}") from error

    def _ssh(self, config: SshTargetConfig, folder: Path) -> SshTarget:
        # Hosts of ours are not written into the book that reapers use: they go as a whole, and are not asked.
        book = self._book if self._config.existing is not None else AddressBook(folder / "hosts")
        return SshTarget(
            config, self._pool, book, supervisor=self._supervisor, lease_s=self._lease_s, say=self._say,
            python_version=self._config.venv_python,
        )  # fmt: skip

    def _folder(self, run_id: str) -> Path:
        return self._scratch / run_id
