"""A cluster stays in the network that it was made in: a file that names another one is refused at once."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.contract.errors import BadInput
from tasks.config.environment_cluster import cluster_of
from tasks.leases.claim import claim
from tasks.stages.clusters import create
from tasks.stages.environment import up
from tasks.stages.environment_asked import asked
from tasks.stages.environment_desk import carry_out
from tasks.stages.environment_moved import moved
from tasks.stages.environment_plan import plan
from tests.cloud.container.leasing import a_ledger, office
from tests.cloud.container.running import Gke
from tests.cloud.project.leasing import desk, environment, inventories, owning


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            {"network": {"name": "other", "subnet": "sub"}},
            "network.name: cluster mine is in network net, .* it to other",
        ),
        (
            {"network": {"name": "net", "subnet": "other"}},
            "network.subnet: cluster mine is in subnetwork sub, .* it to other",
        ),
        ({"cluster": {"name": "mine"}}, "cluster.private: nodes of mine have no public addresses"),
        (
            {"cluster": {"name": "mine", "private": True, "regional": False}},
            "cluster.regional: the control plane of mine is that of its region, .* moves it to us-east5-b",
        ),
    ],
)
def test_what_would_move_a_cluster_is_refused_and_nothing_of_the_first_network_goes(
    project: Gke, said: dict[str, Any], told: str
) -> None:
    project.set(whole=False)
    elsewhere = environment(**said)
    assert moved(desk(), elsewhere) == [], "there is none yet"
    owning(environment())
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


def test_no_second_subnetwork_is_made_with_the_addresses_of_the_first(project: Gke) -> None:
    held = claim(a_ledger(), inventories(a_ledger()), "environment-mine_proj", None)
    held.stand(None)
    for one in asked(desk(), environment()):
        if one.kind in ("network", "subnetwork"):
            carry_out(desk(), held, desk().step(environment(), one))
    assert moved(desk(), environment()) == []
    [told] = moved(desk(), environment(network={"name": "net", "subnet": "other"}))
    assert told.what.startswith(
        "network.subnet: network net has subnetwork sub, whose addresses other would have"
    )
    assert moved(desk(), environment(network={"name": "another", "subnet": "other"})) == []
    renamed = environment(name="renamed")
    step = desk().step(renamed, asked(desk(), renamed)[0])
    assert step.do == "refuse" and "(environment mine of this record): choose another name" in step.why
