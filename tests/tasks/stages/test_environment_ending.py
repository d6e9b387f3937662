"""What runs on node pools that a file takes away is shown, and ends only where somebody agrees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytest

from runtime.contract.errors import InfrastructureError
from tasks.cloud.container_model import Cluster
from tasks.config.cluster import ClusterConfig
from tasks.config.environment_cluster import cluster_of
from tasks.stages.cluster_inside import Inside
from tasks.stages.clusters import Declined, create
from tasks.stages.environment import bootstrap, up
from tasks.stages.environment_ending import ended_by
from tests.cloud.container.leasing import office
from tests.cloud.container.running import Gke
from tests.cloud.project.leasing import desk, environment, owning


@dataclass(frozen=True)
class Seen(Inside):
    """A cluster on whose node pools something runs, or not."""

    used: bool = True
    can_be_had: bool = True

    def ready(self, config: ClusterConfig) -> None:
        if not self.can_be_had:
            raise InfrastructureError("no way to the manifests")

    def busy(self, cluster: Cluster) -> Mapping[str, bool]:
        return {"cpu": True, "tpu-node-pool-0": self.used}


def test_no_bucket_is_made_where_what_is_put_in_cannot_be_had(project: Gke) -> None:
    project.forget()
    with pytest.raises(InfrastructureError, match="no way to the manifests"):
        bootstrap(desk(inside=lambda config: Seen(can_be_had=False)), environment())
    assert project.mutations() == []
    assert bootstrap(desk(inside=lambda config: Seen()), environment())


def test_who_would_lose_what_runs_is_asked_before_anything_goes(project: Gke) -> None:
    project.set(whole=False)
    quiet = {"install": False}
    owning(environment())
    create(office(), "mine", cluster_of(environment(), "proj"), lasting=True)
    less, more = (environment(tpu_pools=pools, queueing=quiet) for pools in (0, 2))
    at, idle = desk(inside=lambda config: Seen()), desk(inside=lambda config: Seen(used=False))
    assert (ended_by(at, less), ended_by(at, more), ended_by(idle, less)) == (
        ["node pool tpu-node-pool-0"],
        [],
        [],
    )
    shown: list[Sequence[str]] = []
    project.forget()
    with pytest.raises(Declined, match="environment mine stays as it is"):
        up(at, less, agree=lambda in_use: bool(shown.append(in_use)))
    assert (shown, project.mutations()) == ([["node pool tpu-node-pool-0"]], [])
