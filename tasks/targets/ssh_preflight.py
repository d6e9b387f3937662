"""What would stop a run on hosts: who cannot be reached, what they lack, where they differ. `look` looks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from runtime.contract.errors import Problem
from tasks.cloud.ssh import Pool
from tasks.cloud.ssh_endpoint import Host
from tasks.cloud.ssh_errors import SshError
from tasks.cloud.ssh_link import Link
from tasks.cloud.ssh_steward import ask
from tasks.targets.interpreter import PACKAGES, PROXY_PACKAGES, unfit
from tasks.targets.types import Plan

_WORKER_BYTES = 400 * 2**20

Answers = Mapping[Host, dict[str, Any] | SshError]


def look(pool: Pool, hosts: Sequence[Host], output: str | None) -> Answers:
    """Asks all hosts what they are good for; `output` is the folder whose disk counts."""

    def task(host: Host) -> Any:
        def about(link: Link) -> dict[str, Any]:
            folder, names = output or host.folder, [*PACKAGES, *PROXY_PACKAGES]
            return ask(link, host, "about", packages=host.python is not None, folder=folder, names=names)

        return about

    told = pool.all({host.endpoint: task(host) for host in hosts})
    return {host: told[host.endpoint] for host in hosts}


def judge(plan: Plan, answers: Answers, names: Sequence[str] = PACKAGES) -> list[Problem]:
    """Returns errors for what cannot work and warnings for what will disturb the numbers; `names`: packages. Pure."""
    problems = []
    answered: dict[Host, dict[str, Any]] = {}
    for host, answer in answers.items():
        if isinstance(answer, SshError):
            problems.append(Problem("error", None, f"{host}: {answer.what}", fix=answer.fix))
        else:
            answered[host] = answer
    problems += missing_packages(answered, names)
    problems += differences(answered)
    for host, answer in answered.items():
        problems += _shortages(plan, host, answer)
    return problems


def missing_packages(
    answered: Mapping[Host, Mapping[str, Any]], names: Sequence[str] = PACKAGES
) -> list[Problem]:
    """Returns an error for each host whose Python lacks what workers need. Pure."""
    faults = [
        unfit(f"{host}: {host.python}", host.python, answer["versions"], names)
        for host, answer in answered.items()
        if host.python is not None
    ]
    return [fault for fault in faults if fault is not None]


def differences(answered: Mapping[Host, Mapping[str, Any]]) -> list[Problem]:
    """Returns an error for each package that is not of one version on all hosts. Pure."""
    problems = []
    for name in ("python", *PACKAGES):
        by_version: dict[str, list[Host]] = {}
        for host, answer in answered.items():
            if name == "python" and host.python is None:
                continue  # it only answers us: the workers' own is chosen from all that a host has
            if version := answer["versions"].get(name):
                by_version.setdefault(version, []).append(host)
        if len(by_version) > 1:
            told = "; ".join(f"{version} on {_few(hosts)}" for version, hosts in sorted(by_version.items()))
            problems.append(
                Problem(
                    "error",
                    None,
                    f"hosts have different versions of {name}: {told}",
                    "workers of one run must run the same code",
                    "install the same version everywhere",
                )
            )
    return problems


def _shortages(plan: Plan, host: Host, answer: Mapping[str, Any]) -> list[Problem]:
    problems = []
    share = plan.bytes_per_save // plan.workers
    if "://" not in plan.output and answer["disk"] < 3 * share:
        severity = "error" if answer["disk"] < share else "warning"
        what = f"{host}: disk is short: about {3 * share / 2**20:.0f} MiB are needed, "
        what += f"{answer['disk'] / 2**20:.0f} MiB are free"
        problems.append(Problem(severity, None, what, fix="free some, or write elsewhere"))  # type: ignore[arg-type]
    needed = _WORKER_BYTES + 2 * share
    if plan.platform == "cpu" and answer["memory"] < needed:
        what = f"{host}: memory is short: about {needed / 2**20:.0f} MiB are needed, "
        what += f"{answer['memory'] / 2**20:.0f} MiB are free"
        problems.append(Problem("warning", None, what, "swapping may be measured instead of checkpoints"))
    if plan.platform == "gpu" and answer["gpus"] < plan.devices_per_worker:
        what = f"{host}: {plan.devices_per_worker} GPUs are needed, it has {answer['gpus']}"
        problems.append(
            Problem("error", None, what, fix="see that the driver is loaded, or use platform: cpu")
        )
    return problems


def _few(hosts: Sequence[Host]) -> str:
    named = ", ".join(str(host) for host in hosts[:3])
    return named if len(hosts) <= 3 else f"{named} and {len(hosts) - 3} more"
