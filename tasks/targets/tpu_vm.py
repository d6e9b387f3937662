"""The TPU VM target: slices of Cloud TPU, made or adopted; on each of their hosts a worker, entered over SSH."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from runtime.contract.errors import BadInput, InfrastructureError, Problem
from tasks.cloud.google_place import choose_project, choose_zone
from tasks.cloud.ssh import Pool
from tasks.cloud.ssh_book import AddressBook
from tasks.cloud.ssh_endpoint import Endpoint
from tasks.cloud.ssh_errors import NotTrusted, SshError
from tasks.cloud.ssh_keys import make_key, with_key
from tasks.cloud.storage import Folder
from tasks.cloud.tpu import CloudTpu
from tasks.cloud.tpu_errors import NotFound
from tasks.cloud.tpu_model import GONE_BUT_THERE, Node
from tasks.config.spec import RunSpec
from tasks.config.ssh_target import SshTargetConfig
from tasks.config.tpu_target import TpuVmTargetConfig
from tasks.leases import directories
from tasks.leases.holding import OVERDUE_S, Holding
from tasks.leases.hosts import FOLDER, PROCESS
from tasks.leases.resource import ResourceRef
from tasks.leases.tpus import NODE, QUEUED
from tasks.targets import tpu_plan, tpu_preflight
from tasks.targets.ssh import SshTarget
from tasks.targets.ssh_fleet import SupervisorCommand, supervise
from tasks.targets.tpu_access import Access, endpoints
from tasks.targets.tpu_capacity import Desk, Slices
from tasks.targets.tpu_setup import set_up
from tasks.targets.types import (
    PREEMPTED,
    Bundle,
    Event,
    Exited,
    Image,
    Plan,
    State,
    Uploaded,
    Workers,
    WorkloadRef,
)

KEY_FILE, HOSTS_FILE = "id_ed25519", "hosts.json"
_KEY_ENDS_AFTER_S = 7 * 86400.0
"""A key that was pushed to machines which are not ours is taken away there by themselves after so long."""

_ANSWER_S = 20.0
_LOGIN_S = 300.0
"""How long a fresh VM may take to know our key and let us in, seconds."""


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
    ) -> None:
        if config.existing is None and not config.zones:
            config = config.model_copy(update={"zones": (choose_zone(None).value,)})
        self._config = config
        self._scratch = scratch
        self._pool = pool
        self._book = book
        self._say = say
        self._supervisor = supervisor
        self._lease_s = lease_s
        self._poll_s = poll_s
        self._inner: SshTarget | None = None
        self._lease: Holding | None = None
        self._lost: WorkloadRef | None = None

    def plan(self, spec: RunSpec) -> Plan:
        """See Target."""
        return tpu_plan.plan(spec, self._config, choose_project(self._config.project).value)

    def preflight(self, plan: Plan) -> list[Problem]:
        """See Target. Asks the API about zones, types and versions."""
        return tpu_preflight.preflight(self._tpu(), self._config, plan)

    def image(self) -> Image | None:
        """See Target. The Python that the file names is looked at once there are hosts."""
        python = self._config.python
        return Image("venv", f"{python} on the TPU VMs", python, {"ref": "the TPU VMs' own Python"}, {}, True)

    def acquire(self, plan: Plan, lease: Holding) -> Workers:
        """See Target. Called again it goes on with what the lease has; slices that were taken away are replaced."""
        self._lease = lease
        folder = self._folder(lease.lease.run_id or lease.lease.name)
        place = directories.reference(folder)
        lease.create(place.kind, place.scope, place.name, lambda: directories.make(folder, lease.labels))
        public = make_key(folder / KEY_FILE, lease.lease.lease_id)
        slices = self._get_slices(lease, public)
        access = Access(
            self._config.user,
            str(folder / KEY_FILE),
            self._config.ssh_port,
            self._config.addresses == "external",
        )
        hosts = [endpoints(self._tpu(), node, access, poll_s=self._poll_s) for node in slices.nodes]
        config = self._hosts_config(plan, slices.nodes, hosts)
        (folder / HOSTS_FILE).write_text(config.model_dump_json(indent=1))
        everyone = [endpoint for of_slice in hosts for endpoint in of_slice]
        self._wait_for_login(everyone)
        if self._config.setup is not None:
            set_up(self._pool, everyone, _script(self._config.setup), self._say)
        self._contain(lease)
        self._inner = self._ssh(config, folder)
        return self._inner.acquire(plan, lease)

    def upload(self, workers: Workers, bundle: Bundle, image: Image) -> Uploaded:
        """See Target."""
        return self._of(bundle.workload.run_id).upload(workers, bundle, image)

    def start(self, uploaded: Uploaded, attempt: int, lease: Holding) -> WorkloadRef:
        """See Target."""
        self._lease = lease
        self._contain(lease)
        return self._of(uploaded.workload.run_id).start(uploaded, attempt, lease)

    def renew(self, ref: WorkloadRef) -> None:
        """See Target."""
        self._of(ref.name).renew(ref)

    def follow(self, ref: WorkloadRef, since: Mapping[int, int]) -> Iterator[Event]:
        """See Target. When workers did not succeed, the service is asked whether it took their slices away."""
        failed = False
        for event in self._of(ref.name).follow(ref, since):
            failed = failed or (isinstance(event, Exited) and event.code != 0)
            yield event
        if failed and self._lease is not None and (reason := self._taken_away(self._lease)):
            self._lost = ref
            yield State(PREEMPTED, reason)

    def fetch(self, ref: WorkloadRef, into: Folder) -> list[Problem]:
        """See Target. Without an output of its own there is nothing to fetch, and the hosts may be gone."""
        return self._of(ref.name).fetch(ref, into) if ref.output else []

    def stop(self, ref: WorkloadRef, grace_s: float) -> None:
        """See Target. What is left of slices that were taken away is given back as a whole: nobody is asked there."""
        if self._lost is None or (self._lost.name, self._lost.attempt) != (ref.name, ref.attempt):
            self._of(ref.name).stop(ref, grace_s)

    def _taken_away(self, lease: Holding) -> str:
        """Says which of the lease's slices the service took away; empty when it has all of them."""
        for ref in self._resources(lease):
            zone = ref.scope.partition("/")[2]
            try:
                if ref.kind == QUEUED:
                    queued = self._tpu().queued_resource(zone, ref.name)
                    if queued.state != "ACTIVE":
                        return f"queued resource {ref.name} in {zone} is {queued.state}"
                    names: Sequence[str] = queued.nodes
                else:
                    names = [ref.name]
                for name in names:
                    node = self._tpu().node(zone, name)
                    if node.state in GONE_BUT_THERE:
                        return f"TPU VM {name} in {zone} is {node.state}"
            except NotFound as error:
                return f"{ref.name} in {zone} is gone: {error}"
        return ""

    def _tpu(self) -> CloudTpu:
        return CloudTpu(choose_project(self._config.project).value)

    def _get_slices(self, lease: Holding, public_key: str) -> Slices:
        """Makes or adopts the slices, and sees to it that our key opens them."""
        user = self._config.user
        metadata = {"enable-guest-attributes": "TRUE", **with_key({}, user, public_key)}
        desk = Desk(self._tpu(), self._config, lease, self._say, metadata, self._poll_s)
        slices = desk.acquire()
        if not slices.ours:
            self._check_adopted(slices.nodes)
            ends = time.time() + _KEY_ENDS_AFTER_S
            for node in slices.nodes:  # one after the other: changes at once refuse each other
                add = lambda there: with_key(there, user, public_key, ends)  # noqa: E731
                self._tpu().set_metadata(node.zone, node.name, add)
        return slices

    def _check_adopted(self, nodes: Sequence[Node]) -> None:
        """Refuses what exists but is not what the target file says: the plan was made for that."""
        types = {node.type for node in nodes}
        if types != {self._config.type} or len(nodes) != self._config.slices:
            raise BadInput(
                f"{self._config.existing} is {len(nodes)} x {', '.join(sorted(types))}, and the target says "
                f"{self._config.slices} x {self._config.type}",
                fix="correct type: and slices: in the target file",
            )

    def _hosts_config(
        self, plan: Plan, nodes: Sequence[Node], hosts: Sequence[Sequence[Endpoint]]
    ) -> SshTargetConfig:
        """Returns the hosts as a target file for the SSH target would have them: a slice is a group."""
        key = next(endpoint.keys[0] for of_slice in hosts for endpoint in of_slice)
        entries = [
            {
                "address": endpoint.address,
                "port": endpoint.port,
                "host_key": endpoint.host_key,
                "group": node.name,
                "internal_address": address.internal,
            }
            for node, of_slice in zip(nodes, hosts, strict=True)
            for endpoint, address in zip(of_slice, node.addresses, strict=True)
        ]
        return SshTargetConfig.model_validate(
            {
                "kind": "ssh",
                "hosts": entries,
                "user": self._config.user,
                "key": key,
                "python": self._config.python,
                "folder": self._config.folder,
                "platform": plan.platform,
                "devices_per_worker": plan.devices_per_worker,
            }
        )

    def _wait_for_login(self, hosts: Sequence[Endpoint]) -> None:
        """Waits until every host lets us in: sshd and the guest's agent start after the VM is READY."""
        begin, waiting = time.monotonic(), list(hosts)
        while True:
            told = self._pool.each(waiting, lambda link: link.run(["true"], timeout_s=_ANSWER_S))
            refused = {host: answer for host, answer in told.items() if isinstance(answer, SshError)}
            for error in refused.values():
                if isinstance(error, NotTrusted):
                    raise error
            if not refused:
                return
            if time.monotonic() - begin > _LOGIN_S:
                error = next(iter(refused.values()))
                raise InfrastructureError(
                    f"{len(refused)} of {len(hosts)} workers do not let us in after {_LOGIN_S:g} s: {error}. "
                    "Firewall (tcp:22), OS Login (metadata enable-oslogin) or a worker that is down"
                ) from error
            self._say(f"waiting for {len(refused)} of {len(hosts)} workers to let us in")
            waiting = list(refused)
            time.sleep(self._poll_s)

    def _contain(self, lease: Holding) -> None:
        """What is on machines of ours goes with them; on machines that stay it is given back by itself."""
        ours = next((ref for ref in self._resources(lease) if ref.ours), None)
        if ours is not None:
            lease.contain(ours, frozenset({PROCESS, FOLDER}))

    def _resources(self, lease: Holding) -> list[ResourceRef]:
        return [ref for ref in lease.lease.resources if ref.kind in (NODE, QUEUED)]

    def _of(self, run_id: str) -> SshTarget:
        """Returns the hosts of a run; another process may have got them."""
        if self._inner is None:
            folder = self._folder(run_id)
            try:
                config = SshTargetConfig.model_validate_json((folder / HOSTS_FILE).read_text())
            except OSError as error:
                raise InfrastructureError(f"the hosts of run {run_id} are not known here: {error}") from error
            self._inner = self._ssh(config, folder)
        return self._inner

    def _ssh(self, config: SshTargetConfig, folder: Path) -> SshTarget:
        # Hosts of ours are not written into the book that reapers use: they go as a whole, and are not asked.
        book = self._book if self._config.existing is not None else AddressBook(folder / "hosts")
        return SshTarget(config, self._pool, book, supervisor=self._supervisor, lease_s=self._lease_s)

    def _folder(self, run_id: str) -> Path:
        return self._scratch / run_id


def _script(name: str) -> Path:
    """Returns where a setup script is: as named from here, else from slicebench's own folder."""
    path = Path(name).expanduser()
    ours = Path(__file__).parents[2] / name
    return ours if not path.exists() and ours.exists() else path
