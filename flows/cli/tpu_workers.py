"""`slicebench tpu exec` and `slicebench tpu ssh`: commands on the workers of a TPU, and a shell on one."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from flows.cli import tpu
from flows.cli.said import Json, print_json, say
from flows.cli.tpu import Name, Project, Zone
from runtime.contract.errors import BadInput, ExitCode

if TYPE_CHECKING:
    from tasks.stages.tpu_workers import Answer, Login
    from tasks.targets.tpu_access import Way


@Parameter(name="*")
@dataclass(frozen=True)
class LoginFlags:
    """How to get into workers, as flags of every command that does."""

    user: Annotated[str | None, Parameter(help="User to log in as; default: the one it was made with")] = None
    key: Annotated[str | None, Parameter(help="Private key file; default: the one it was made with")] = None
    internal: Annotated[
        bool, Parameter(negative="", help="By internal addresses, from inside its network")
    ] = False
    iap: Annotated[
        bool, Parameter(negative="", help="Through a tunnel of Identity-Aware Proxy, by gcloud")
    ] = False
    port: Annotated[int, Parameter(help="Port of sshd")] = 22

    def chosen(self) -> Login:
        """Returns what they choose. Raises BadInput when they contradict each other."""
        from tasks.stages.tpu_workers import Login

        if self.internal and self.iap:
            raise BadInput("--internal and --iap are two ways in", fix="give one of them")
        way: Way = "iap" if self.iap else "internal" if self.internal else "external"
        return Login(self.user, self.key, way, self.port)


AS_MADE = LoginFlags()


def exec_(
    name: Name,
    /,
    *command: Annotated[str, Parameter(allow_leading_hyphen=True, help="The command, after --")],
    worker: Annotated[
        tuple[int, ...], Parameter(negative="", help="These workers only (repeat the flag)")
    ] = (),
    timeout_s: Annotated[float, Parameter(help="Longest time for the command, seconds")] = 3600.0,
    login: LoginFlags = AS_MADE,
    zone: Zone = None,
    project: Project = None,
    json: Json = False,
) -> int:
    """Run a command on all or some workers at once; exit code 1 when it fails on one, 3 when one cannot be reached."""
    from tasks.stages.tpu_workers import run_on, workers

    if not command:
        raise BadInput(
            "no command is given", fix=f"write it after --: slicebench tpu exec {name} -- hostname"
        )
    places = workers(tpu.office(project), name, (zone,) if zone else (), login.chosen(), worker)
    answers = run_on(places, command, timeout_s, (lambda answer: None) if json else _tell)
    if json:
        print_json({"name": name, "answers": [_as_data(answer) for answer in answers]})
    if any(answer.ran is None for answer in answers):
        return ExitCode.INFRASTRUCTURE
    return ExitCode.WORKLOAD_FAILED if any(answer.code for answer in answers) else ExitCode.DONE


def ssh(
    name: Name,
    /,
    *command: Annotated[
        str, Parameter(allow_leading_hyphen=True, help="A command instead of a shell, after --")
    ],
    worker: Annotated[int, Parameter(help="Which worker, counted over all slices")] = 0,
    login: LoginFlags = AS_MADE,
    zone: Zone = None,
    project: Project = None,
) -> int:
    """Open a shell on one worker; its host key is pinned from what the service says of it."""
    from tasks.stages.tpu_workers import shell_command, workers

    [place] = workers(tpu.office(project), name, (zone,) if zone else (), login.chosen(), (worker,))
    with tempfile.TemporaryDirectory(prefix="slicebench-") as folder:
        # Not exec: the file with the host key is to go afterwards.
        code = os.spawnvp(os.P_WAIT, "ssh", list(shell_command(place, name, Path(folder), command)))
    return code if code >= 0 else ExitCode.INTERRUPTED


def _tell(answer: Answer) -> None:
    """Prints what a worker said, each line with the worker before it."""
    mark = f"[{answer.place.index}] "
    if answer.ran is None:
        say(f"{mark}{answer.error}")
        return
    for line in answer.ran.output.decode("utf-8", "replace").splitlines():
        print(f"{mark}{line}")
    for line in answer.ran.errors.splitlines():
        say(f"{mark}{line}")
    if answer.ran.code:
        say(f"{mark}exit code {answer.ran.code}")


def _as_data(answer: Answer) -> dict[str, object]:
    ran = answer.ran
    return {
        "worker": answer.place.index,
        "slice": answer.place.slice_index,
        "node": answer.place.node,
        "address": answer.place.endpoint.address,
        "code": answer.code,
        "output": ran.output.decode("utf-8", "replace") if ran else "",
        "errors": ran.errors if ran else str(answer.error),
    }
