"""A cluster stays in the network that it was made in: a file that names another one is refused at once."""

from __future__ import annotations

import pytest

from runtime.contract.errors import BadInput
from tasks.config.environment_cluster import cluster_of
from tasks.stages.clusters import create
from tasks.stages.environment import up
from tasks.stages.environment_moved import moved
from tasks.stages.environment_plan import plan
from tests.cloud.container.leasing import office
from tests.cloud.container.running import Gke
from tests.cloud.project.leasing import desk, environment


@pytest.mark.parametrize(
    ("network", "told"),
    [
        (
            {"name": "other", "subnet": "sub"},
            "network.name: cluster mine is in network net, .* moves it to other",
        ),
        (
            {"name": "net", "subnet": "other"},
            "network.subnet: cluster mine is in subnetwork sub, .* moves it to other",
        ),
    ],
)
def test_what_would_move_a_cluster_is_refused_and_nothing_of_the_first_network_goes(
    project: Gke, network: dict[str, str], told: str
) -> None:
    project.set(whole=False)
    elsewhere = environment(network=network)
    assert moved(desk(), elsewhere) == [], "there is none yet"
    create(office(), "mine", cluster_of(environment(), "proj"), lasting=True)
    assert moved(desk(), environment()) == []
    project.forget()
    with pytest.raises(BadInput, match=told):
        up(desk(), elsewhere)
    assert project.mutations() == []
    assert moved(desk(), elsewhere) == list(plan(desk(), elsewhere).against)
    with project.store.changing() as state:
        for cluster in state["clusters"].values():
            cluster["status"] = "ERROR"
    assert moved(desk(), elsewhere) == [], "it is made anew"
