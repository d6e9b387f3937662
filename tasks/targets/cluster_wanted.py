"""The cluster that a run needs: what it must have, how it is made, and in which words another one is refused."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.contract.errors import BadInput
from tasks.cloud.container import Container
from tasks.cloud.container_model import Cluster
from tasks.config.cluster import ClusterConfig
from tasks.targets.cluster_fit import Need, short_of


@dataclass(frozen=True)
class Wanted:
    """The cluster that a run needs: what it must have, and how it is made. `create` false: nothing is made.

    `location` is where it is looked for first; not given: where it would be made.
    """

    name: str
    config: ClusterConfig | None
    create: bool = True
    location: str = ""
    need: Need | None = None
    why_not: BadInput | None = None
    """Why it cannot be made, where there is no `config`."""

    @property
    def where(self) -> str:
        """The location where it is looked for, and made."""
        return self.location or (self.config.location if self.config else "")

    @property
    def needs(self) -> Need:
        """What it must have."""
        if self.need is not None:
            return self.need
        assert self.config is not None
        return Need.of(self.config)


class Missing(BadInput):
    """The cluster is not there, and the run may not make it; or it lacks what the run needs."""


def refuse_dead(there: Cluster) -> None:
    """Raises Missing for a cluster that does not work."""
    if there.state in ("ERROR", "STOPPING"):
        raise Missing(f"cluster {there.name} is {there.state}{f': {there.why}' if there.why else ''}")


def refuse_unfit(there: Cluster, wanted: Wanted) -> None:
    """Raises Missing for a cluster that lacks slices of the type: a run changes none that others use."""
    lacking = short_of(there.pools, wanted.needs)
    if lacking.count:
        raise lacks(there, lacking.told)


def not_there(container: Container, wanted: Wanted) -> Missing:
    """Returns what to raise where there is no cluster of the name, and none may be made."""
    return Missing(
        f"there is no cluster {wanted.name!r} in {container.project}",
        fix=f"slicebench cluster create {wanted.name}, or create: if_missing in the target",
    )


def lacks(there: Cluster, told: str) -> Missing:
    """Returns what to raise where a cluster lacks what `told` says."""
    return Missing(
        f"cluster {there.name} {told}",
        fix=f"slicebench cluster resize {there.name}, another cluster, or fewer slices",
    )
