"""Into the workers of a TPU by its name: how each is reached, one command on all of them, a shell on one."""

from __future__ import annotations

import concurrent.futures
import getpass
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from runtime.contract.errors import BadInput, InfrastructureError
from tasks.cloud.ssh import Pool
from tasks.cloud.ssh_endpoint import Endpoint
from tasks.cloud.ssh_errors import SshError
from tasks.cloud.ssh_link import Ran
from tasks.cloud.tpu_model import Node
from tasks.stages.tpus import Office, key_of, status
from tasks.targets import tpu_iap
from tasks.targets.tpu_access import Access, Way, endpoints


@dataclass(frozen=True)
class Login:
    """What a user chose; None: as the lease of the TPU has it, else the user's own name and keys."""

    user: str | None = None
    key: str | None = None
    way: Way = "external"
    port: int = 22


@dataclass(frozen=True)
class Place:
    """One worker: which of which slice, counted over all slices, and how it is reached."""

    index: int
    slice_index: int
    node: str
    endpoint: Endpoint


@dataclass(frozen=True)
class Answer:
    """What a command came to on one worker: it ran, or the worker could not be asked."""

    place: Place
    ran: Ran | None
    error: SshError | None = None

    @property
    def code(self) -> int:
        """Its exit code; 255, as ssh's, where it did not run."""
        return 255 if self.ran is None else self.ran.code


def workers(
    office: Office, name: str, zones: Sequence[str], login: Login, which: Sequence[int] = ()
) -> Sequence[Place]:
    """Returns the workers of a TPU, those with the given indices only when some are given.

    Raises BadInput for an index there is none of, InfrastructureError when a slice is not READY.
    """
    if login.way == "iap" and (problems := tpu_iap.lacking()):
        raise BadInput(problems)
    standing = status(office, name, zones)
    idle = next((node for node in standing.nodes if node.state != "READY"), None)
    if idle is not None or not standing.nodes:
        state = f"{idle.name} is {idle.state}" if idle else f"it is {standing.state}"
        raise InfrastructureError(f"nobody can log in to {name}: {state}; see slicebench tpu status {name}")

    def find(node: Node) -> Sequence[Endpoint]:
        return endpoints(office.tpu, node, _access(office, name, node, login), poll_s=office.poll_s)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        each = list(pool.map(find, standing.nodes))
    places: list[Place] = []
    for slice_index, (node, found) in enumerate(zip(standing.nodes, each, strict=True)):
        places += [Place(len(places) + n, slice_index, node.name, one) for n, one in enumerate(found)]
    unknown = [index for index in which if not 0 <= index < len(places)]
    if unknown:
        raise BadInput(f"{name} has no worker {unknown[0]}", fix=f"its workers are 0 to {len(places) - 1}")
    return [place for place in places if not which or place.index in which]


def run_on(
    places: Sequence[Place],
    command: Sequence[str],
    timeout_s: float,
    heard: Callable[[Answer], None] = lambda answer: None,
) -> Sequence[Answer]:
    """Runs a command on workers at once; returns what came of each, in order. `heard` gets each as it comes.

    One word is a line for the shell; several are a command and its arguments.
    """
    argv = ["sh", "-c", command[0]] if len(command) == 1 else list(command)
    pool = Pool()
    try:
        futures = {
            pool.submit(place.endpoint, lambda link: link.run(argv, timeout_s=timeout_s)): place
            for place in places
        }
        answers = {}
        for future in concurrent.futures.as_completed(futures):
            place = futures[future]
            try:
                answer = Answer(place, future.result())
            except SshError as error:
                answer = Answer(place, None, error)
            answers[place.index] = answer
            heard(answer)
        return [answers[place.index] for place in places]
    finally:
        pool.close()


def shell_command(place: Place, name: str, folder: Path, command: Sequence[str] = ()) -> Sequence[str]:
    """Returns the command line of ssh for a worker; its host key is written to a file in `folder`."""
    endpoint = place.endpoint
    alias = f"tpu.{name}-{place.index}"
    known = folder / f"known_hosts-{alias}"
    known.write_text(f"{alias} {endpoint.host_key}\n")
    options = {
        "UserKnownHostsFile": str(known),
        "GlobalKnownHostsFile": "/dev/null",
        "HostKeyAlias": alias,
        "StrictHostKeyChecking": "yes",
        "ForwardAgent": "no",
        **({"IdentitiesOnly": "yes"} if endpoint.keys else {}),
    }
    words = ["ssh", "-p", str(endpoint.port)]
    for key, value in options.items():
        words += ["-o", f"{key}={value}"]
    for key in endpoint.keys:
        words += ["-i", key]
    if endpoint.proxy:
        words += ["-o", f"ProxyCommand={shlex.join(endpoint.proxy)}"]
    return [*words, f"{endpoint.user}@{endpoint.address}", *(("--", *command) if command else ())]


def _access(office: Office, name: str, node: Node, login: Login) -> Access:
    """Returns the lease's user and key where the TPU was made with them, else the user's own."""
    file = key_of(office, name, node.labels)
    public = file.with_name(f"{file.name}.pub")
    ours = _user_of(node, public.read_text()) if login.key is None and public.is_file() else None
    return Access(
        user=login.user or ours or getpass.getuser(),
        key=login.key or (str(file) if ours else None),
        port=login.port,
        way=login.way,
    )


def _user_of(node: Node, public_key: str) -> str | None:
    """Returns for whom a key was put into the metadata of a node; None when it is not there."""
    data = public_key.split()[1]
    for line in node.metadata.get("ssh-keys", "").splitlines():
        user, _, key = line.partition(":")
        if data in key.split():
            return user
    return None
