"""Directories in the memory of hosts, for local tiers of checkpoints: whether they can be had, and making them."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Sequence
from typing import Any

from runtime.contract.errors import Problem
from tasks.cloud.ssh import Pool
from tasks.cloud.ssh_endpoint import Host
from tasks.cloud.ssh_errors import SshError
from tasks.cloud.ssh_link import Link
from tasks.cloud.ssh_steward import ask
from tasks.leases.holding import Holding
from tasks.targets.ssh_fleet import Fleet

FOLDER = "ram"
"""Below a worker's folder; it goes with that."""


def shortages(pool: Pool, hosts: Sequence[Host], size: int) -> list[Problem]:
    """Returns an error for each host that lacks the memory (`size` bytes), or where we may not mount it."""

    def task(host: Host) -> Callable[[Link], dict[str, Any]]:
        return lambda link: ask(link, host, "able", program="ram")

    told = pool.all({host.endpoint: task(host) for host in hosts})
    problems = []
    for host in hosts:
        answer = told[host.endpoint]
        if isinstance(answer, SshError):
            problems.append(Problem("error", None, str(answer)))
        elif answer["why_not"]:
            fix = f"let {host.endpoint.user} use sudo there without a password, or leave ram_directory: out"
            problems.append(Problem("error", None, f"{host}: ram_directory: {answer['why_not']}", fix=fix))
        elif answer["memory"] < size:
            what = f"{host}: ram_directory: takes {size >> 20} MiB, and {answer['memory'] >> 20} MiB are free"
            problems.append(Problem("error", None, what, fix="ask for less"))
    return problems


def mount(fleet: Fleet, lease: Holding, size: int, keep: str = "") -> None:
    """Mounts a directory of `size` bytes for each worker, in its folder, where it is not; of what lies in it only
    `keep` stays, if that is given. Raises the first host's SshError where that cannot be.
    """
    run_id = lease.lease.run_id or lease.lease.name

    def make(link: Link, worker: int) -> None:
        host = fleet.hosts[worker]
        path = posixpath.join(fleet.folder(host, run_id, worker), FOLDER)
        fields: dict[str, Any] = {"size": size, "source": f"slicebench-{lease.lease.lease_id}", "keep": keep}
        ask(link, host, "mount", program="ram", path=path, **fields)

    fleet.everywhere(make)
