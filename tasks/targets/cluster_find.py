"""Which cluster of GKE is meant by a name, and whether what is there of the name may be worked on."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from runtime.contract.errors import BadInput
from tasks.cloud.container import Container
from tasks.cloud.container_model import Cluster
from tasks.cloud.labels import read_labels
from tasks.cloud.pool_sizes import as_now
from tasks.config.cluster import ClusterConfig
from tasks.targets.cluster_requests import CPU_POOL, pool_name


class Others(BadInput):
    """What is there of a name may not be worked on: nobody knows whose it is, or somebody does."""


def find(container: Container, name: str, location: str = "", *, sure: bool = False) -> Cluster | None:
    """Returns the cluster of a name: in this location where there is one, else wherever there is only one.

    Its node pools have the sizes of now, see `as_now`, also of `sure`. Raises BadInput when several locations have one
    of the name, and none is meant.
    """
    found = [one for one in container.clusters() if one.name == name]
    here = [one for one in found if one.location == location]
    if here or len(found) < 2:
        meant = next(iter((*here, *found)), None)
        return as_now(meant, container.timing, sure=sure) if meant is not None else None
    where = ", ".join(sorted(one.location for one in found))
    raise BadInput(f"there are several clusters {name}: in {where}", fix="name the location with --location")


def refuse_others(
    there: Cluster, config: ClusterConfig, mine: Callable[[Mapping[str, str]], bool], *, beside: bool
) -> None:
    """Raises Others for a cluster or pool that another's lease stands behind, or of whom nobody knows.

    `beside`: slices get other names where the pools of others have ours.
    """
    if not (config.zone == there.location or config.zone.startswith(f"{there.location}-")):
        raise Others(
            f"cluster {there.name} is in {there.location}, and not where {config.zone} is",
            fix="choose another name, or a zone there",
        )
    whose = read_labels(there.labels)
    if whose is not None and not mine(there.labels):
        raise Others(
            f"cluster {there.name} in {there.location} was made by {whose.owner}'s lease {whose.lease_id}",
            fix="choose another name, or use it as it is: name it in a target",
        )
    if beside and not config.counts_nodes:
        return
    wanted = (
        {pool_name(index, config.pool_prefix) for index in range(max(1, config.slices))}
        if config.type
        else set()
    )
    if not beside and mine(there.labels):  # then its CPU pool was made with it
        wanted.add(CPU_POOL)
    others = [pool.name for pool in there.pools if pool.name in wanted and not mine(pool.labels)]
    if others:
        one = len(others) == 1
        named = f"node pool{'' if one else 's'} {' and '.join(others)} of {there.name}"
        raise Others(
            f"{named} {'is' if one else 'are'} there, and not made under this lease: left alone",
            fix="choose another cluster, or delete what is named; if somebody took its labels away, give it those of "
            "the cluster again (gcloud container node-pools update --labels)",
        )
