"""What runs on node pools of an environment that its file takes away or makes anew: it would end, whosever it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tasks.config.environment import EnvironmentConfig
from tasks.config.environment_cluster import cluster_of
from tasks.stages import clusters
from tasks.stages.environment_desk import Desk
from tasks.targets.cluster_find import find


def _unheard(line: str) -> None:
    """Says it to nobody."""


def ended_by(desk: Desk, config: EnvironmentConfig) -> Sequence[str]:
    """Returns the node pools that would go and on which something runs, as far as one can look. Raises as `preview`."""
    cluster, name = cluster_of(config, desk.project), config.cluster.name
    there = find(desk.container, name, cluster.location)
    office = desk.office(config)
    if there is None or office.inside is None or not there.endpoint:
        return ()
    inside = replace(office.inside, say=_unheard)  # whoever makes it so says what cannot be seen
    office = replace(office, say=_unheard, inside=inside)
    goes = sorted(one.name for one in clusters.preview(office, name, cluster).steps if one.disturbs)
    busy = inside.busy(there) if goes else {}
    return [f"node pool {pool}" for pool in goes if busy.get(pool)]
