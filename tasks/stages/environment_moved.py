"""Whether a file says of an environment's cluster what nothing brings about while it stands: another place or network.

Told before anything is made or goes: a second network would be of no use, and what leads out of the first is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from runtime.contract.errors import Problem
from tasks.cloud.container_document import document
from tasks.cloud.things import value_at
from tasks.config.environment import EnvironmentConfig
from tasks.config.environment_cluster import cluster_of
from tasks.leases import environments as kinds
from tasks.leases.lease import State
from tasks.leases.ledger import latest
from tasks.stages.environment_desk import Desk
from tasks.targets.environment_diff import differences
from tasks.targets.environment_wanted import wanted

_SAID_BY = {"network": "network.name", "subnetwork": "network.subnet"}
_GOING = ("ERROR", "STOPPING")
"""Of such a cluster nothing stays: it is made anew, wherever the file says."""
_PRIVATE = "private_cluster_config.enable_private_nodes"


def moved(desk: Desk, config: EnvironmentConfig) -> list[Problem]:
    """Returns what cannot be as the file says while the cluster stands. Raises ContainerError."""
    fix = (
        "leave it as it was; or give all of it back first, with the file as it was: `env down`, then `env up`"
    )
    return [
        Problem("error", None, f"{what}: nothing was changed", fix=fix)
        for what in list(_of_cluster(desk, config)) or _of_subnetwork(desk, config)
    ]


def _of_cluster(desk: Desk, config: EnvironmentConfig) -> Iterator[str]:
    name, location = config.cluster.name, cluster_of(config, desk.project).location
    found = {one.location: one for one in desk.container.clusters() if one.name == name}
    if location not in found:
        for place, there in found.items():
            if config.zone.startswith(place) and there.state not in _GOING:
                kind = "is that of its region" if place == config.region else f"is in {place} alone"
                yield f"cluster.regional: the control plane of {name} {kind}, and nothing moves it to {location}"
        return
    seen = document(desk.project, location, name, desk.timing)
    if seen is None or seen.get("status") in _GOING:
        return
    yield from _of_network(desk, config, seen)
    if value_at(seen, _PRIVATE) and not config.cluster.private:
        yield f"cluster.private: nodes of {name} have no public addresses, and nothing gives them any"


def _of_network(desk: Desk, config: EnvironmentConfig, there: Mapping[str, Any]) -> Iterator[str]:
    cluster = next(one for one in wanted(config, desk.project) if one.kind == "cluster")
    where = {name: value for name, value in cluster.fields.items() if name in _SAID_BY}
    for one in differences(replace(cluster, fields=where), there, ()):
        is_in = f"cluster {cluster.name} is in {one.path} {one.there}"
        yield f"{_SAID_BY[one.path]}: {is_in}, and nothing moves it to {one.wanted}"


def _of_subnetwork(desk: Desk, config: EnvironmentConfig) -> Iterator[str]:
    """Yields that there is a subnetwork of another name, made for this: addresses of both would be the same."""
    lease = latest(desk.ledger, kinds.lease_name(desk.project, config.called))
    own = (
        [ref for ref in lease.resources if ref.ours]
        if lease is not None and lease.state is not State.GONE
        else []
    )
    network, subnet = (
        next(one for one in wanted(config, desk.project) if one.kind == kind)
        for kind in ("network", "subnetwork")
    )
    if subnet.existing or not any((ref.kind, ref.name) == (kinds.NETWORK, network.name) for ref in own):
        return
    made = [ref.name for ref in own if (ref.kind, ref.scope) == (kinds.SUBNETWORK, subnet.scope)]
    if made and subnet.name not in made:
        has = f"network {network.name} has subnetwork {made[0]}"
        yield f"network.subnet: {has}, whose addresses {subnet.name} would have"
