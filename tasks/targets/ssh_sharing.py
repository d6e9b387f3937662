"""Where workers on hosts may write: is a folder there one and the same for all of them, and for us?"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from runtime.contract.errors import Problem
from tasks.cloud.ssh import Pool
from tasks.cloud.ssh_endpoint import Host
from tasks.cloud.ssh_errors import SshError, Unfit
from tasks.cloud.ssh_steward import ask

_PATIENCE_S = 2.0
"""How long a file that one host wrote may take to be seen by another, seconds: network folders cache."""


@dataclass(frozen=True)
class Sharing:
    """How a folder on the hosts is shared: with us, among them. `faults`: what is wrong with it, host by host."""

    with_us: bool
    among: bool
    faults: tuple[str, ...] = ()


def find_sharing(pool: Pool, hosts: Sequence[Host], there: str, here: str | None) -> Sharing:
    """Has the first host write a file, looks for it from the others and from here, and takes it back.

    `here` is the path that would be the same folder on this machine; None when none would.
    """
    first, *others = hosts
    name = f".slicebench-{secrets.token_hex(8)}"
    try:
        marked = pool.call(
            first.endpoint, lambda link: ask(link, first, "mark", program="probe", folder=there, name=name)
        )
    except Unfit as error:
        return Sharing(False, False, (str(error),))
    try:
        with_us = here is not None and Path(here, name).exists()
        asked = {
            host.endpoint: lambda link, host=host: ask(
                link, host, "see", program="probe", folder=there, name=name, patience_s=_PATIENCE_S
            )
            for host in others
        }
        faults = []
        for endpoint, told in pool.all(asked).items():
            if isinstance(told, SshError):
                raise told
            if not told["seen"]:
                faults.append(f"{endpoint} does not see in {there} what {first} writes there")
            elif not told["writable"]:
                faults.append(f"{endpoint.user} may not write to {there} on {endpoint}")
        return Sharing(with_us, not faults, tuple(faults))
    finally:
        pool.call(
            first.endpoint,
            lambda link: ask(
                link, first, "unmark", program="probe", folder=there, name=name, new=marked["new"]
            ),
        )


def refusal(sharing: Sharing, workers: int, explicit: bool) -> Problem | None:
    """Returns why workers cannot write so, or None. Pure. `explicit`: the target file names the folder.

    One worker needs no shared folder, and where none is named it may write into its own.
    """
    told = "; ".join(sharing.faults[:3])
    if sharing.among or (workers == 1 and not explicit):
        return None
    if workers == 1:
        return Problem("error", None, told, fix="correct output: in the target file")
    return Problem(
        "error",
        None,
        f"{workers} workers would not write to one folder: {told}",
        "each would hold a part of every checkpoint, and parts on different disks cannot be restored together",
        "name a folder that all hosts share (NFS, Lustre) as output: in the target file, or --output gs://…, "
        "or use --workers 1",
    )
