"""The SSH target: hosts that are there already, one worker on each."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from runtime.contract.errors import BadInput, Problem
from tasks.cloud.ssh import Pool
from tasks.cloud.ssh_book import AddressBook
from tasks.cloud.ssh_endpoint import Host
from tasks.cloud.ssh_errors import SshError
from tasks.cloud.storage import Folder, open_folder
from tasks.config.size import in_bytes
from tasks.config.spec import RunSpec
from tasks.config.ssh_target import SshTargetConfig
from tasks.leases.holding import OVERDUE_S, Holding
from tasks.targets import ssh_plan, ssh_preflight, ssh_ram, ssh_venvs
from tasks.targets.interpreter import wanted
from tasks.targets.ssh_fetch import fetch
from tasks.targets.ssh_fleet import CODE, OUTPUT, SUITE, Fleet, SupervisorCommand, raise_first, supervise
from tasks.targets.ssh_sharing import Sharing, find_sharing, refusal
from tasks.targets.ssh_venvs import Choice
from tasks.targets.types import (
    Bundle,
    Event,
    Image,
    Interpreter,
    Plan,
    Uploaded,
    Workers,
    Workload,
    WorkloadRef,
)


class SshTarget:
    """Hosts behind the Protocol. Of each lease a folder on every host holds bundle, job and scratch; it goes
    with the lease. What workers write goes to gs://, to a folder that the hosts share, or (a single worker)
    into that folder, and is then fetched.
    """

    def __init__(
        self,
        config: SshTargetConfig,
        pool: Pool,
        book: AddressBook,
        *,
        supervisor: SupervisorCommand = supervise,
        lease_s: float = OVERDUE_S,
        say: Callable[[str], None] = lambda line: None,
        python_version: str | None = None,
    ) -> None:
        self._config = config
        self._pool = pool
        self._book = book
        self._supervisor = supervisor
        self._lease_s = lease_s
        self._say = say
        self._python_version = python_version
        self._choice: Choice | None = None
        self._fleets: dict[int, Fleet] = {}

    def plan(self, spec: RunSpec) -> Plan:
        """See Target."""
        return ssh_plan.plan(spec, self._config)

    def preflight(self, plan: Plan) -> list[Problem]:
        """See Target. Connects to every host, compares versions, and finds out what their folders share."""
        hosts = self._hosts(plan.workers)
        answers = ssh_preflight.look(self._pool, hosts, self._config.output)
        problems = ssh_preflight.judge(plan, answers, wanted(self._config))
        if self._config.python is None and not problems:
            try:
                self._chosen()
            except BadInput as error:
                problems += error.problems
        if any(isinstance(answer, SshError) for answer in answers.values()):
            return problems
        if self._config.ram_directory is not None:
            problems += ssh_ram.shortages(self._pool, hosts, in_bytes(self._config.ram_directory))
        if "://" not in plan.output:
            sharing = self._sharing(hosts, plan.output)
            refused = refusal(sharing, plan.workers, self._config.output is not None)
            problems += [refused] if refused else []
        return problems

    def image(self) -> Image | None:
        """See Target. Asks all hosts for the versions in the Python that the file names, if it names one."""
        if self._config.python is None:
            return None
        hosts = self._hosts(len(self._config.hosts))
        told = ssh_preflight.look(self._pool, hosts, None)
        raise_first(told)
        answered = {host: answer for host, answer in told.items() if not isinstance(answer, SshError)}
        lacking = ssh_preflight.missing_packages(answered, wanted(self._config))
        if problems := [*lacking, *ssh_preflight.differences(answered)]:
            raise BadInput(problems)
        versions = dict(answered[hosts[0]]["versions"])
        reference = f"{self._config.python} on {hosts[0].endpoint.address}"
        return Image("venv", reference, self._config.python, {"ref": "the hosts' own Python"}, versions, True)

    def interpreter(self) -> Interpreter | None:
        """See Target. Asks all hosts which Pythons they have, unless the file names one."""
        return self._chosen().interpreter if self._config.python is None else None

    def acquire(self, plan: Plan, lease: Holding) -> Workers:
        """See Target. Makes a folder on each host; workers are made by `start`."""
        items = ssh_plan.workers_of(self._config, plan.workers)
        for host in self._hosts(plan.workers):
            self._book.remember(host)
        self._fleet(plan.workers).make_folders(lease)
        if self._config.ram_directory is not None:
            ssh_ram.mount(self._fleet(plan.workers), lease, in_bytes(self._config.ram_directory))
        lease.live()
        return Workers(items, items[0].address, plan.devices_per_worker, plan.platform)

    def upload(self, workers: Workers, bundle: Bundle, image: Image) -> Uploaded:
        """See Target. `suite` and `code` are relative to each worker's folder. Makes venvs where they are missing."""
        fleet, workload = self._fleet(len(workers.items)), bundle.workload
        if self._config.python is not None:
            raise_first(fleet.upload(workload.run_id, bundle.files, lambda host, talk: None))
            return Uploaded(SUITE, CODE, workers, image, workload)
        kit = ssh_venvs.kit_of(image)
        choice, folders = self._chosen(), fleet.folders(workload.run_id)
        self._say(f"venv {kit.key} on {len(folders)} hosts: made where it is missing, which takes minutes")
        made = fleet.upload(
            workload.run_id,
            {**bundle.files, **ssh_venvs.kit_files(kit)},
            lambda host, talk: ssh_venvs.make_venv(talk, host, folders[host], kit, choice),
        )
        ssh_venvs.write_logs(made, open_folder(workload.output))
        raise_first(made)
        image, told = ssh_venvs.image_of(image, made, choice, self._config.folder)
        self._say(told)
        return Uploaded(SUITE, CODE, workers, image, workload)

    def start(self, uploaded: Uploaded, attempt: int, lease: Holding) -> WorkloadRef:
        """See Target."""
        fleet = self._fleet(len(uploaded.workers.items))
        output, fetched = self._output(fleet, uploaded.workload)
        if self._config.ram_directory is not None:  # what attempts before left in memory goes
            ssh_ram.mount(fleet, lease, in_bytes(self._config.ram_directory), keep=f"a{attempt}")
        ref = fleet.start(uploaded, attempt, lease, output)
        return replace(ref, output=fetched)

    def renew(self, ref: WorkloadRef) -> None:
        """See Target."""
        self._fleet(len(ref.scratch)).renew(ref)

    def follow(
        self, ref: WorkloadRef, since: Mapping[int, int], gone: Callable[[], str] = lambda: ""
    ) -> Iterator[Event]:
        """See Target. `gone` says that hosts were taken away, once they were: nothing is waited for then."""
        return self._fleet(len(ref.scratch)).follow(ref, since, gone)

    def fetch(self, ref: WorkloadRef, into: Folder) -> list[Problem]:
        """See Target."""
        if not ref.output:
            return []
        return fetch(self._pool, self._hosts(len(ref.scratch)), ref.output, into)

    def stop(self, ref: WorkloadRef, grace_s: float) -> None:
        """See Target."""
        self._fleet(len(ref.scratch)).stop(ref, grace_s)

    def _chosen(self) -> Choice:
        """Returns the Python that venvs are made with; hosts are asked once."""
        if self._choice is None:
            hosts = self._hosts(len(self._config.hosts))
            self._choice = ssh_venvs.choose_python(self._pool, hosts, self._python_version)
        return self._choice

    def _output(self, fleet: Fleet, workload: Workload) -> tuple[str, str]:
        """Returns where workers write (empty: into their own folders), and from where that is fetched, if it is."""
        if "://" in workload.output:
            return workload.output, ""
        there = self._there(workload.output)
        explicit = self._config.output is not None
        sharing = self._sharing(fleet.hosts, workload.output)
        if refused := refusal(sharing, len(fleet.hosts), explicit):
            raise BadInput(refused)
        if sharing.with_us:
            return there, ""
        first = fleet.hosts[0]
        if sharing.among and (explicit or len(fleet.hosts) > 1):
            return there, fleet.absolute(first, there)
        return "", posixpath.join(fleet.folder(first, workload.run_id, 0), OUTPUT)

    def _sharing(self, hosts: Sequence[Host], output: str) -> Sharing:
        here = output if self._config.output is None else None
        return find_sharing(self._pool, hosts, self._there(output), here)

    def _there(self, output: str) -> str:
        """Returns the folder on the hosts that a folder of ours stands for."""
        base = self._config.output
        return output if base is None else posixpath.join(base, posixpath.basename(output))

    def _hosts(self, workers: int) -> Sequence[Host]:
        return [ssh_plan.host_of(self._config, host) for host in self._config.used(workers)]

    def _fleet(self, workers: int) -> Fleet:
        if workers not in self._fleets:
            self._fleets[workers] = Fleet(
                self._hosts(workers), self._pool, supervisor=self._supervisor, lease_s=self._lease_s,
                local=ssh_ram.FOLDER if self._config.ram_directory else "",
            )  # fmt: skip
        return self._fleets[workers]
