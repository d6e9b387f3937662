"""Whether a file names another network than the one in which an environment's cluster is: nothing moves a cluster.

Told before anything is made or goes: a second network would be of no use, and what leads out of the first is needed.
"""

from __future__ import annotations

from dataclasses import replace

from runtime.contract.errors import Problem
from tasks.cloud.container_document import document
from tasks.config.environment import EnvironmentConfig
from tasks.config.environment_cluster import cluster_of
from tasks.stages.environment_desk import Desk
from tasks.targets.environment_diff import differences
from tasks.targets.environment_wanted import wanted

_SAID_BY = {"network": "network.name", "subnetwork": "network.subnet"}
_GOING = ("ERROR", "STOPPING")
"""Of such a cluster nothing stays: it is made anew, wherever the file says."""


def moved(desk: Desk, config: EnvironmentConfig) -> list[Problem]:
    """Returns what of the network cannot be as the file says while the cluster stands. Raises ContainerError."""
    location = cluster_of(config, desk.project).location
    there = document(desk.project, location, config.cluster.name, desk.timing)
    if there is None or there.get("status") in _GOING:
        return []
    cluster = next(one for one in wanted(config, desk.project) if one.kind == "cluster")
    where = {name: value for name, value in cluster.fields.items() if name in _SAID_BY}
    fix = (
        "leave it as it was; or give all of it back first, with the file as it was: `env down`, then `env up`"
    )
    return [
        Problem(
            "error",
            None,
            f"{_SAID_BY[one.path]}: cluster {cluster.name} is in {one.path} {one.there}, and nothing moves it to "
            f"{one.wanted}: nothing was changed",
            fix=fix,
        )
        for one in differences(replace(cluster, fields=where), there, ())
    ]
