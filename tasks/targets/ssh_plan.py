"""What a run takes of hosts over SSH: which of them, and what is put there."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from runtime.contract.errors import BadInput, Problem
from runtime.contract.fit import Backend, devices_wanted, fit
from tasks.cloud.ssh_endpoint import Endpoint, Host
from tasks.config.spec import RunSpec
from tasks.config.ssh_target import HostConfig, JumpConfig, SshTargetConfig
from tasks.leases.hosts import folder_ref, process_ref
from tasks.targets.local_plan import bytes_of, divide
from tasks.targets.types import Plan, Worker


def plan(spec: RunSpec, config: SshTargetConfig) -> Plan:
    """Returns the plan of a run on hosts. Pure. Raises BadInput when no point fits."""
    warnings: list[Problem] = []
    workers, devices = divide(config, devices_wanted(spec.points), warnings)
    backend = Backend(config.platform, workers * devices, workers, config.slices)
    fitting = fit(spec.points, backend)
    if not fitting.points:
        raise BadInput(fitting.problems)
    hosts = [host_of(config, host) for host in config.used(workers)]
    resources = [folder_ref(host, f"{spec.run_id}-w{index:04d}") for index, host in enumerate(hosts)]
    resources += [process_ref(host, f"supervisor of worker {index}") for index, host in enumerate(hosts)]
    return Plan(
        target=spec.target_name,
        resources=resources,
        workers=workers,
        slices=config.slices,
        devices_per_worker=devices,
        platform=config.platform,
        price_per_hour=0.0,
        warnings=tuple(warnings),
        output=spec.output,
        points=fitting.points,
        left_out=fitting.problems,
        locks=[("ssh", f"{host.endpoint.address}:{host.endpoint.port}") for host in hosts],
        bytes_per_save=max((bytes_of(point.checkpoint) for point in fitting.points), default=0),
    )


def workers_of(config: SshTargetConfig, count: int) -> Sequence[Worker]:
    """Returns the workers of a plan with `count` of them, slice by slice."""
    per_slice = count // config.slices
    return [
        Worker(index, index // per_slice, host.internal_address or host.address)
        for index, host in enumerate(config.used(count))
    ]


def host_of(config: SshTargetConfig, host: HostConfig) -> Host:
    """Returns how to get to a host of the file, and what to use there."""
    endpoint = Endpoint(
        address=host.address,
        user=host.user or config.user,
        port=host.port or config.port,
        keys=_keys(host.key or config.key),
        host_key=host.host_key,
        known_hosts=config.known_hosts,
        agent=config.agent,
        default_keys=config.default_keys,
        proxy=host.proxy_command,
    )
    jump = host.jump or config.jump
    return Host(
        endpoint=dataclasses.replace(endpoint, jump=_jump(endpoint, jump)) if jump else endpoint,
        python=config.python,
        folder=config.folder,
    )


def _jump(endpoint: Endpoint, jump: JumpConfig) -> Endpoint:
    return dataclasses.replace(
        endpoint,
        address=jump.address,
        port=jump.port,
        user=jump.user or endpoint.user,
        keys=_keys(jump.key) or endpoint.keys,
        host_key=jump.host_key,
    )


def _keys(file: str | None) -> tuple[str, ...]:
    return (file,) if file else ()
