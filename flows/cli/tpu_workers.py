"""`slicebench tpu exec` and `slicebench tpu ssh`: commands on the workers of a TPU, and a shell on one."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from flows.cli import tpu
from flows.cli.tpu import Json, Name, Project, Zone
from runtime.contract.errors import BadInput, ExitCode

if TYPE_CHECKING:
    from tasks.stages.tpu_workers import Answer

User = Annotated[str | None, Parameter(help="Whom to log in as; else as it was made with")]
Key = Annotated[str | None, Parameter(help="Private key file; else the one it was made with")]
Internal = Annotated[bool, Parameter(negative="", help="By internal addresses, from inside its network")]
Port = Annotated[int, Parameter(help="Port of sshd")]


def exec_(
    name: Name,
    /,
    *command: Annotated[str, Parameter(allow_leading_hyphen=True, help="The command, after --")],
    worker: Annotated[
        tuple[int, ...], Parameter(negative="", help="These workers only (repeat the flag)")
    ] = (),
    timeout_s: Annotated[float, Parameter(help="Longest time for the command, seconds")] = 3600.0,
    user: User = None,
    key: Key = None,
    internal: Internal = False,
    port: Port = 22,
    zone: Zone = None,
    project: Project = None,
    json: Json = False,
) -> int:
    """Run a command on all or some workers at once; exit code 1 when it fails on one, 3 when one cannot be asked."""
    from tasks.stages.tpu_workers import Login, run_on, workers

    if not command:
        raise BadInput(
            "no command is given", fix=f"write it after --: slicebench tpu exec {name} -- hostname"
        )
    login = Login(user, key, internal, port)
    places = workers(tpu.office(project), name, (zone,) if zone else (), login, worker)
    answers = run_on(places, command, timeout_s, (lambda answer: None) if json else _tell)
    if json:
        tpu.print_json({"name": name, "answers": [_as_data(answer) for answer in answers]})
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
    user: User = None,
    key: Key = None,
    internal: Internal = False,
    port: Port = 22,
    zone: Zone = None,
    project: Project = None,
) -> int:
    """Open a shell on one worker; its host key is pinned from what the service says of it."""
    from tasks.stages.tpu_workers import Login, shell_command, workers

    login = Login(user, key, internal, port)
    [place] = workers(tpu.office(project), name, (zone,) if zone else (), login, (worker,))
    with tempfile.TemporaryDirectory(prefix="slicebench-") as folder:
        # Not exec: the file with the host key is to go afterwards.
        code = os.spawnvp(os.P_WAIT, "ssh", list(shell_command(place, name, Path(folder), command)))
    return code if code >= 0 else ExitCode.INTERRUPTED


def _tell(answer: Answer) -> None:
    """Prints what a worker said, each line with the worker before it."""
    mark = f"[{answer.place.index}] "
    if answer.ran is None:
        print(f"{mark}{answer.error}", file=sys.stderr)
        return
    for line in answer.ran.output.decode("utf-8", "replace").splitlines():
        print(f"{mark}{line}")
    for line in answer.ran.errors.splitlines():
        print(f"{mark}{line}", file=sys.stderr)
    if answer.ran.code:
        print(f"{mark}exit code {answer.ran.code}", file=sys.stderr)


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
