"""What is made under an environment's own lease: all that its file comes to, but a NAT that its network has already."""

from __future__ import annotations

from contextlib import suppress

from tasks.cloud.container_errors import Disabled
from tasks.cloud.google_rest import Document, Rest
from tasks.cloud.things import OfCompute
from tasks.config.environment import EnvironmentConfig
from tasks.stages.environment_desk import KIND_OF, Desk
from tasks.targets.environment_wanted import Wanted, wanted


def asked(desk: Desk, config: EnvironmentConfig) -> list[Wanted]:
    """Returns it, in the order of making. Raises ContainerError."""
    left_out = "router" if nat_of_others(desk, config) else ""
    found = (one for one in wanted(config, desk.project) if one.kind in KIND_OF)
    return [one for one in found if one.kind != left_out]


def nat_of_others(desk: Desk, config: EnvironmentConfig) -> str:
    """Returns the router by which a network that is there lets its nodes out, where the file says nothing of NAT.

    A second NAT beside it would be refused. Empty: there is none, or the file says what there is to be.
    """
    network = config.network
    if not (network.existing and network.nat is None and config.has_nat):
        return ""
    routers = OfCompute("routers", rest=Rest("compute.googleapis.com", timing=desk.timing))
    home = network.host_project or desk.project
    mine = next(one for one in wanted(config, desk.project) if one.kind == "router")
    if desk.has_made(config, mine):
        return ""
    with suppress(Disabled):  # then nothing is there
        for one in routers.of_network(f"{home}/{config.region}", network.name):
            if any(_lets_out(nat, network.subnet) for nat in one.get("nats", ())):
                return str(one["name"])
    return ""


def _lets_out(nat: Document, subnet: str) -> bool:
    """Whether a NAT is for a subnetwork: for all, or for those of a list in which that is."""
    which = str(nat.get("sourceSubnetworkIpRangesToNat", ""))
    named = [str(one.get("name", "")).rpartition("/")[2] for one in nat.get("subnetworks", ())]
    return which.startswith("ALL_SUBNETWORKS") or subnet in named
