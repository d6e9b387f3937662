"""What a cluster in a shared VPC needs that only its host project's people can give: looked for, told; never given.

GKE's own accounts of the service project make machines in the host project's subnetwork, and rules in its firewall:
https://cloud.google.com/kubernetes-engine/docs/how-to/cluster-shared-vpc.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from tasks.cloud import services
from tasks.cloud.container_errors import Disabled, NotFound, PermissionDenied
from tasks.cloud.google_rest import Rest
from tasks.cloud.grants import Given, Grants, On
from tasks.config.environment import EnvironmentConfig
from tasks.stages.environment_desk import Desk

_USER, _AGENT = "roles/compute.networkUser", "roles/container.hostServiceAgentUser"
_USE = "compute.subnetworks.use"
_MORE = {
    _USER: ("roles/compute.networkAdmin", "roles/editor", "roles/owner"),
    _AGENT: ("roles/owner",),
}
"""Roles that have all that one has."""


def missing_in_host(desk: Desk, config: EnvironmentConfig) -> Iterator[str]:
    """Yields which roles GKE's accounts, and who asks, seem to lack in the host project, each with what gives it.

    They may have them from above (a folder, an organisation, a group), so this stops nothing; where policies may not be
    read, it is said what must be there. Nothing without a shared VPC.
    """
    host, subnet = config.network.host_project, config.network.subnet
    if host is None or host == desk.project:
        return
    number = _number(desk)
    called = number or "PROJECT_NUMBER"
    agent = f"serviceAccount:service-{called}@container-engine-robot.iam.gserviceaccount.com"
    services = f"serviceAccount:{called}@cloudservices.gserviceaccount.com"
    place = f"--project {host} --region {config.region}"
    on_subnet = f"gcloud compute networks subnets add-iam-policy-binding {subnet} {place}"
    on_host = f"gcloud projects add-iam-policy-binding {host}"
    shared = f"{host}/regions/{config.region}/subnetworks/{subnet}"
    in_host, of_subnet = _seen(desk, "project", host), _seen(desk, "subnetwork", shared)
    if _may_not_use(desk, shared):
        yield (
            f"network.host_project: you may not use subnetwork {subnet} in {host} ({_USE}): Google may let nobody make "
            f"machines there who may not: {on_subnet} --member user:YOU --role {_USER}"
        )
    for role, member, where, gives, seen in (
        (_USER, agent, f"on subnetwork {subnet}", on_subnet, (in_host, of_subnet)),
        (_USER, services, f"on subnetwork {subnet}", on_subnet, (in_host, of_subnet)),
        (_AGENT, agent, "on the project", on_host, (in_host,)),
    ):
        if any(_has(role, member, one) for given in seen for one in given or ()):
            continue
        fix = f"{gives} --member {member} --role {role}"
        who = f"network.host_project: {member.partition(':')[2]}"
        if not number or None in seen:
            yield f"{who} needs {role} {where} in {host}, and you may not see whether it has it: {fix}"
        else:
            yield (
                f"{who} does not have {role} {where} in {host}, unless from a folder, organisation or group: GKE makes "
                f"no cluster there without: {fix}"
            )


def _may_not_use(desk: Desk, subnet: str) -> bool:
    """Whether whoever asks may not use a subnetwork; of one that cannot be asked about, others tell."""
    with suppress(Disabled, NotFound, PermissionDenied):
        return bool(services.lacking_on_subnetwork(subnet, [_USE], desk.timing))
    return False


def _has(role: str, member: str, given: Given) -> bool:
    return given.member == member and given.condition is None and given.role in (role, *_MORE[role])


def _number(desk: Desk) -> str:
    """Returns the number of the service project, by which its accounts are called; empty where one may not look."""
    rest = Rest("cloudresourcemanager.googleapis.com", timing=desk.timing)
    try:
        told = rest.get(f"look at project {desk.project}", f"v3/projects/{desk.project}")
    except (Disabled, PermissionDenied):
        return ""
    return str(told["name"]).rpartition("/")[2]


def _seen(desk: Desk, on: On, scope: str) -> list[Given] | None:
    """Returns who has which role; None where one may not look."""
    try:
        return Grants(on, desk.timing).given(scope)
    except (Disabled, PermissionDenied):
        return None
