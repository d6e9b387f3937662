"""From slices to hosts: what exists is what was asked for, the hosts let us in, and the SSH target knows them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from runtime.contract.errors import BadInput, InfrastructureError
from tasks.cloud.ssh import Pool
from tasks.cloud.ssh_endpoint import Endpoint
from tasks.cloud.ssh_errors import NotAdmitted, NotTrusted, SshError
from tasks.cloud.tpu_model import Node
from tasks.config.ssh_target import SshTargetConfig
from tasks.config.tpu_target import TpuVmTargetConfig
from tasks.targets.types import Plan

_ANSWER_S = 20.0
_LOGIN_S = 300.0
"""How long a fresh VM may take to know our key and let us in, seconds."""


def check_adopted(config: TpuVmTargetConfig, nodes: Sequence[Node]) -> None:
    """Refuses what exists but is not what the target file says: the plan was made for that."""
    types = {node.type for node in nodes}
    if types != {config.type} or len(nodes) != config.slices:
        raise BadInput(
            f"{config.existing} is {len(nodes)} x {', '.join(sorted(types))}, and the target says "
            f"{config.slices} x {config.type}",
            fix="correct type: and slices: in the target file",
        )


def hosts_config(
    config: TpuVmTargetConfig, plan: Plan, nodes: Sequence[Node], hosts: Sequence[Sequence[Endpoint]]
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
            "proxy_command": endpoint.proxy,
        }
        for node, of_slice in zip(nodes, hosts, strict=True)
        for endpoint, address in zip(of_slice, node.addresses, strict=True)
    ]
    return SshTargetConfig.model_validate(
        {
            "kind": "ssh",
            "hosts": entries,
            "user": config.user,
            "key": key,
            "python": config.python,
            "folder": config.folder,
            "ram_directory": config.ram_directory,
            "platform": plan.platform,
            "devices_per_worker": plan.devices_per_worker,
        }
    )


def wait_for_login(
    pool: Pool, hosts: Sequence[Endpoint], say: Callable[[str], None], poll_s: float, *, ours: bool
) -> None:
    """Waits until every host lets us in: sshd and the guest's agent start after the VM is READY.

    `ours`: made for us, so that OS Login is off there. Raises InfrastructureError when one does not in time.
    """
    begin, waiting = time.monotonic(), list(hosts)
    while True:
        told = pool.each(waiting, lambda link: link.run(["true"], timeout_s=_ANSWER_S))
        refused = {host: answer for host, answer in told.items() if isinstance(answer, SshError)}
        for error in refused.values():
            if isinstance(error, NotTrusted):
                raise error
        if not refused:
            return
        if time.monotonic() - begin > _LOGIN_S:
            error = next(iter(refused.values()))
            why = "a worker that is down, or a firewall that keeps tcp:22 out"
            if isinstance(error, NotAdmitted):
                why = "the guest did not take the key that stands in the metadata"
                why += "" if ours else ", as it does where the whole project has OS Login on"
            raise InfrastructureError(
                f"{len(refused)} of {len(hosts)} workers do not let us in after {_LOGIN_S:g} s: {error}: {why}"
            ) from error
        say(f"waiting for {len(refused)} of {len(hosts)} workers to let us in")
        waiting = list(refused)
        time.sleep(poll_s)
