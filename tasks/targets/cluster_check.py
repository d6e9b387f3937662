"""What Compute Engine says against a cluster before anything is made: machines and reservations that are not there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from runtime.contract.errors import BadInput, InfrastructureError, Problem
from tasks.cloud.compute import Compute
from tasks.cloud.container_errors import NotFound
from tasks.config.cluster import ClusterConfig

_USUAL = ("e2-standard-16", "n2-standard-16", "n1-standard-16")
"""What may take the place of a CPU machine type that a zone lacks."""


def refuse_unfit(compute: Compute, config: ClusterConfig, say: Callable[[str], None]) -> None:
    """Raises BadInput, with every reason, for what the zones do not have. Where it may not be asked, that is said."""
    if Compute.is_left_out():
        return
    try:
        problems = list(unfit(compute, config))
    except InfrastructureError as error:
        say(f"whether {config.zone} has what is asked for is not known before it is made: {error}")
        return
    if problems:
        raise BadInput(problems)


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
    what = f"machines of {shape.machine_type} ({config.type}) are not to be had in {config.zone}"
    yield Problem("error", None, what, fix=fix)
