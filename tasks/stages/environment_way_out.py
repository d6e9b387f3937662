"""How private nodes reach the outside in a network of others: by a NAT that is there, by one's own, or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from runtime.contract.errors import Problem
from tasks.cloud.container_errors import Disabled, PermissionDenied
from tasks.cloud.google_rest import Document, Rest
from tasks.cloud.things import OfCompute
from tasks.config.environment import EnvironmentConfig
from tasks.config.environment_risks import UNASKED
from tasks.stages.environment_desk import Desk
from tasks.targets.environment_wanted import wanted


def nat_of_others(desk: Desk, config: EnvironmentConfig) -> str:
    """Returns the router by which a network that is there lets its nodes out, where the file says nothing of NAT.

    A second NAT beside it would be refused. Empty: there is none, or the file says what there is to be.
    """
    network = config.network
    if not (network.existing and network.nat is None and config.has_nat):
        return ""
    mine = next(one for one in wanted(config, desk.project) if one.kind == "router")
    if desk.has_made(config, mine):
        return ""
    with suppress(Disabled):  # then nothing is there
        for one in _routers(desk, config):
            if any(_lets_out(nat, network.subnet) for nat in one.get("nats", ())):
                return str(one["name"])
    return ""


def no_way_out(desk: Desk, config: EnvironmentConfig) -> str:
    """Returns that private nodes in a network that is there have no NAT, where none is made; empty: they have one.

    Whoever may not look at the network's routers, as may be in a shared VPC, learns that there is to be one.
    """
    network = config.network
    if not (config.cluster.private and network.existing) or config.has_nat:
        return ""
    try:
        there = _routers(desk, config)
    except (Disabled, PermissionDenied):
        return UNASKED if network.host_project is not None and network.nat is None else ""
    if any(_lets_out(nat, network.subnet) for one in there for nat in one.get("nats", ())):
        return ""
    others = [str(one["name"]) for one in there if one.get("nats")]
    serve = f" (that of {', '.join(others)} is for others)" if others else ""
    return (
        f"network.nat: no NAT of network {network.name} in {config.region} is for subnetwork {network.subnet}{serve}: "
        "private nodes reach nothing outside of Google, no image of other registries, no package: have it added to "
        "one, or say nat: true"
    )


def one_too_many(desk: Desk, config: EnvironmentConfig) -> list[Problem]:
    """Returns that `nat: true` asks for a NAT beside one of others with which there cannot be a second one."""
    network = config.network
    if not (network.existing and network.nat):
        return []
    mine = next(one for one in wanted(config, desk.project) if one.kind == "router")
    with suppress(Disabled, PermissionDenied):  # of what is missing, others tell
        for one in _routers(desk, config):
            if one["name"] != mine.name and any(
                _lets_out(nat, network.subnet) for nat in one.get("nats", ())
            ):
                what = f"network.nat: router {one['name']} lets subnetwork {network.subnet} out already"
                return [
                    Problem(
                        "error", None, f"{what}, and Compute Engine refuses a second one", fix="leave nat out"
                    )
                ]
    return []


def _routers(desk: Desk, config: EnvironmentConfig) -> Sequence[Document]:
    """Returns the routers of the network in the region. Raises ContainerError."""
    routers = OfCompute("routers", rest=Rest("compute.googleapis.com", timing=desk.timing))
    home = config.network.host_project or desk.project
    return routers.of_network(f"{home}/{config.region}", config.network.name)


def _lets_out(nat: Document, subnet: str) -> bool:
    """Whether a NAT lets nodes of a subnetwork out: all nodes, or those of a list in which that is.

    Addresses of pods need none of their own: outside of the network they go by that of their node.
    """
    if nat.get("type") == "PRIVATE":  # to other networks, not to the outside
        return False
    if str(nat.get("sourceSubnetworkIpRangesToNat", "")).startswith("ALL_SUBNETWORKS"):
        return True
    return any(
        str(one.get("name", "")).rpartition("/")[2] == subnet
        and {"ALL_IP_RANGES", "PRIMARY_IP_RANGE"} & set(one.get("sourceIpRangesToNat", ()))
        for one in nat.get("subnetworks", ())
    )
