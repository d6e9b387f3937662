"""What a place says against a cluster before anything is made: versions, machines and reservations it does not have."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from runtime.contract.errors import InfrastructureError, Problem
from tasks.cloud.compute import Compute
from tasks.cloud.container import Container
from tasks.cloud.container_errors import BadLocation, NotFound
from tasks.config.cluster import ClusterConfig

_JOINS_GPUS = (1, 34, 1, 1829001)
"""From this version on GKE makes networks for GPUs, and pods may claim their interfaces."""
_USUAL = ("e2-standard-16", "n2-standard-16", "n1-standard-16")
"""What may take the place of a CPU machine type that a zone lacks."""


def against(container: Container, config: ClusterConfig) -> list[Problem]:
    """Returns what is against making a cluster there; a warning, where that may not be asked.

    Raises ContainerError where GKE does not answer.
    """
    try:
        return [*_version(container, config), *_places(container, config)]
    except BadLocation as error:  # written by whoever asks; a service that fails is another matter
        return [Problem("error", None, str(error))]


def _version(container: Container, config: ClusterConfig) -> Iterator[Problem]:
    versions = container.versions(config.location)
    channel = config.channel.upper()
    offered = versions.by_channel.get(channel, versions.valid)
    wanted = config.version or versions.defaults.get(channel, versions.default)
    meant = [one for one in offered if one == wanted or one.startswith((f"{wanted}.", f"{wanted}-"))]
    if config.joins_gpus and meant and max(map(_number, meant)) < _JOINS_GPUS:
        fitting = [one for one in offered if _number(one) >= _JOINS_GPUS]
        what = f"GKE makes networks for {config.type} from 1.34.1-gke.1829001 on, and {wanted} is older"
        fix = f"--version {fitting[0]}" if fitting else "--channel rapid, or gpu_networks: none for TCP"
        yield Problem("error", None, what, fix=fix)
    if config.version is None:
        return
    begin = (f"{config.version}.", f"{config.version}-")
    if not any(one == config.version or one.startswith(begin) for one in offered):
        what = f"version {config.version} is none of the channel {config.channel} in {config.location}"
        yield Problem("error", None, what, fix=f"there are {', '.join(offered)}")


def _number(version: str) -> tuple[int, ...]:
    """Returns a version as numbers, which compare as versions do: 1.9 is older than 1.33."""
    return tuple(int(part) for part in re.findall(r"\d+", version))


def _places(container: Container, config: ClusterConfig) -> list[Problem]:
    if Compute.is_left_out():
        return []
    try:
        return list(unfit(Compute(container.project, timing=container.timing), config))
    except InfrastructureError as error:
        what = f"whether {config.zone} has what is asked for is not known before it is made: {error}"
        return [Problem("warning", None, what)]


def unfit(compute: Compute, config: ClusterConfig) -> Iterator[Problem]:
    """Yields what is asked for and is not there. Raises ContainerError."""
    region = config.zone.rpartition("-")[0]
    try:
        zones = compute.zones(region)
    except NotFound:
        yield Problem("error", None, f"there is no region {region}", fix="name another zone")
        return
    if config.zone not in zones:
        what = f"there is no zone {config.zone} in {region}"
        yield Problem("error", None, what, fix=f"there is {', '.join(zones)}")
        return
    yield from _cpu_machines(compute, config, zones if config.regional else [config.zone])
    yield from _accelerators(compute, config, zones)
    for reservation in config.reservations:
        if not compute.has_reservation(config.zone, reservation):
            what = f"there is no reservation {reservation} in {config.zone}"
            yield Problem("error", None, what, fix="see gcloud compute reservations list")


def _cpu_machines(compute: Compute, config: ClusterConfig, zones: Sequence[str]) -> Iterator[Problem]:
    """A control plane in the region may be given machines in each of its zones."""
    wanted = config.cpu_pool.machine_type
    lacking = [zone for zone in zones if not compute.has_machine_type(zone, wanted)]
    if not lacking:
        return
    others = [
        one for one in _USUAL if one != wanted and all(compute.has_machine_type(zone, one) for zone in zones)
    ]
    fix = f"--cpu-machine-type {others[0]}" if others else "name another one with --cpu-machine-type"
    if config.zone not in lacking:
        fix += ", or --zonal"
    yield Problem(
        "error", None, f"CPU machines of {wanted} are not to be had in {', '.join(lacking)}", fix=fix
    )


def _accelerators(compute: Compute, config: ClusterConfig, zones: Sequence[str]) -> Iterator[Problem]:
    shape = config.shape
    if shape is None or compute.has_machine_type(config.zone, shape.machine_type):
        return
    others = [zone for zone in zones if compute.has_machine_type(zone, shape.machine_type)]
    region = config.zone.rpartition("-")[0]
    fix = (
        f"there are in {', '.join(others)}"
        if others
        else f"no zone of {region} has them: take another region"
    )
    called = f" ({config.type})" if config.type != shape.machine_type else ""
    what = f"machines of {shape.machine_type}{called} are not to be had in {config.zone}"
    yield Problem("error", None, what, fix=fix)
