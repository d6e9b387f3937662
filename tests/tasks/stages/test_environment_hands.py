"""What people add by hand to what an environment has: it stays when something beside it is put right."""

from __future__ import annotations

from typing import Any

from tasks.cloud.things import Thing
from tasks.leases.claim import claim
from tasks.leases.holding import Holding
from tasks.stages.environment_asked import asked
from tasks.stages.environment_desk import carry_out
from tests.cloud.container.leasing import a_ledger
from tests.cloud.container.running import Gke
from tests.cloud.project.leasing import desk, environment, inventories

ADDRESSES = {"natIpAllocateOption": "MANUAL_ONLY", "natIps": ["a"], "drainNatIps": ["b"]}
SETTINGS = {"minPortsPerVm": 128, "logConfig": {"enable": True, "filter": "ALL"}}
SECOND = {
    "name": "theirs",
    "type": "PRIVATE",
    "sourceSubnetworkIpRangesToNat": "LIST_OF_SUBNETWORKS",
    "subnetworks": [{"name": "other"}],
}


def holding() -> Holding:
    held = claim(a_ledger(), inventories(a_ledger()), "environment-mine_proj", None)
    held.stand(None)
    return held


def carried_out(held: Holding, kinds: tuple[str, ...], **fields: Any) -> dict[str, list[str]]:
    """Makes or changes things of these kinds as they are wanted; returns the fields that differed, by kind."""
    config, told = environment(**fields), {}
    for one in asked(desk(), config):
        if one.kind in kinds:
            step = desk().step(config, one)
            told[one.kind] = [each.path for each in step.differences]
            carry_out(desk(), held, step)
    return told


def router() -> dict[str, Any]:
    [one] = [one for one in asked(desk(), environment()) if one.kind == "router"]
    there = desk().sort(one).look(one.scope, one.name)
    assert isinstance(there, Thing)
    return dict(there.fields)


def test_a_second_nat_and_settings_of_ours_outlive_what_is_put_right(project: Gke) -> None:
    held, kinds = holding(), ("network", "subnetwork", "router")
    carried_out(held, kinds)
    [nat] = router()["nats"]
    own = {**nat, **ADDRESSES, **SETTINGS}
    limited = {"sourceSubnetworkIpRangesToNat": "LIST_OF_SUBNETWORKS", "subnetworks": [{"name": "other"}]}
    with project.store.changing() as state:  # by hand
        [stored] = state["project"]["routers"].values()
        stored["nats"] = [SECOND, own]
    assert carried_out(held, kinds)["router"] == [], "addresses of one's own let nodes out as well"
    with project.store.changing() as state:
        [stored] = state["project"]["routers"].values()
        stored["nats"] = [SECOND, {**own, **limited}]
    paths = ["nats.0.sourceSubnetworkIpRangesToNat", "nats.0.subnetworks"]
    assert carried_out(held, kinds)["router"] == paths
    assert router()["nats"] == [SECOND, own]


def test_ranges_of_others_outlive_one_that_is_made_again(project: Gke) -> None:
    held, kinds = holding(), ("network", "subnetwork")
    carried_out(held, kinds)
    theirs = {"rangeName": "theirs", "ipCidrRange": "172.16.0.0/24"}
    with project.store.changing() as state:
        [stored] = state["project"]["subnetworks"].values()
        pods, services = stored["secondaryIpRanges"]
        wide = {**pods, "ipCidrRange": "10.4.0.0/14"}  # nobody said which: one that has room does as well
        stored["secondaryIpRanges"] = [theirs, wide]
    paths = ["secondaryIpRanges.1.rangeName", "secondaryIpRanges.1.ipCidrRange"]
    assert carried_out(held, kinds)["subnetwork"] == paths
    [stored] = project.store.read()["project"]["subnetworks"].values()
    assert stored["secondaryIpRanges"] == [theirs, wide, services]
