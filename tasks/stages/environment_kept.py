"""What others have in an environment's network: it cannot go before that, and nothing of slicebench's takes it away."""

from __future__ import annotations

from contextlib import suppress

from tasks.cloud.container_errors import Disabled, PermissionDenied
from tasks.cloud.google_rest import Rest
from tasks.cloud.things import OfCompute
from tasks.config.environment import EnvironmentConfig
from tasks.leases import environments as kinds
from tasks.leases.ledger import latest
from tasks.stages.environment_desk import Desk

_OF_GKE = ("gke-", "k8s-", "k8s2-")
"""Rules that GKE makes begin so; they go with the network."""


_UNSEEN = Disabled, PermissionDenied
"""By which one learns that there is nothing to see here for whoever asks; all else is a failure to look."""


def keeps_network(desk: Desk, config: EnvironmentConfig) -> list[str]:
    """Returns what others have in the network that was made, in words; none where one may not look.

    Raises ContainerError where it is not known: what keeps the network must not be found out by waiting for it.
    """
    lease = latest(desk.ledger, kinds.lease_name(desk.project, config.called))
    mine = lease.resources if lease is not None else ()
    network = next((ref for ref in mine if ref.kind == kinds.NETWORK and ref.ours), None)
    if network is None:
        return []
    own = {(ref.kind, ref.scope, ref.name) for ref in mine if ref.ours}
    rest, found = Rest("compute.googleapis.com", timing=desk.timing), []
    with suppress(*_UNSEEN):
        there = OfCompute("networks", rest=rest).look(network.scope, network.name)
        for link in there.fields.get("subnetworks") or () if there is not None else ():
            region, _, name = str(link).rpartition("/regions/")[2].partition("/subnetworks/")
            if (kinds.SUBNETWORK, f"{network.scope}/{region}", name) not in own:
                found.append(f"subnetwork {name} in {region}")
    for kind, part, scope in (
        (kinds.FIREWALL, "firewalls", network.scope),
        (kinds.ROUTER, "routers", f"{network.scope}/{config.region}"),
    ):
        with suppress(*_UNSEEN):
            for one in OfCompute(part, rest=rest).of_network(scope, network.name):
                name = str(one["name"])
                if (kind, scope, name) not in own and not name.startswith(_OF_GKE):
                    found.append(f"{part.removesuffix('s')} {name}")
    return found
