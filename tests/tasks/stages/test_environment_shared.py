"""An environment in a shared VPC: made whole and given back, and nothing of the host project touched."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.contract.errors import SlicebenchError
from tasks.cloud.google_rest import Rest
from tasks.cloud.grants import Grants
from tasks.stages.environment import down, up
from tasks.stages.environment_plan import plan
from tests.cloud.container.hurried import QUICK
from tests.cloud.container.running import Gke
from tests.cloud.project.leasing import desk, environment
from tests.cloud.project.networks import AGENT, SERVICES

SHARED = environment(
    network={"name": "net", "subnet": "sub", "existing": True, "host_project": "host"},
    cluster={"name": "mine"},
)
SUBNET = "projects/host/regions/us-east5/subnetworks/sub"
USER, HOST_AGENT = "roles/compute.networkUser", "roles/container.hostServiceAgentUser"


@pytest.fixture
def host(project: Gke) -> Gke:
    """A host project with a network and a subnetwork, in which nobody gave GKE's accounts anything yet."""
    project.set(projects=["proj", "host"])
    compute = Rest("compute.googleapis.com", timing=QUICK)
    network = {"name": "net", "autoCreateSubnetworks": False}
    compute.send("POST", "make it", "compute/v1/projects/host/global/networks", network)
    ranges = {"pods": "192.168.64.0/20", "services": "192.168.80.0/20"}
    subnet = {
        "name": "sub",
        "network": "projects/host/global/networks/net",
        "ipCidrRange": "10.129.0.0/20",
        "privateIpGoogleAccess": True,
        "secondaryIpRanges": [{"rangeName": name, "ipCidrRange": cidr} for name, cidr in ranges.items()],
    }
    compute.send("POST", "make it", "compute/v1/projects/host/regions/us-east5/subnetworks", subnet)
    return project


def in_host(project: Gke) -> Any:
    """Returns all that the host project has, but for rules of GKE's, and who has which role there."""
    parts = project.store.read()["project"]
    kinds = ("networks", "subnetworks", "routers", "firewalls", "policies")
    return {kind: {k: v for k, v in parts[kind].items() if k.startswith("projects/host")} for kind in kinds}


def give_on_subnet(project: Gke, *members: str) -> None:
    """As its owner does: nothing here asks for that."""
    with project.store.changing() as state:
        state["project"]["policies"][SUBNET]["bindings"] = [{"role": USER, "members": list(members)}]


def test_it_is_made_and_given_back_and_the_host_project_stays_as_it_was(host: Gke) -> None:
    warned = plan(desk(), SHARED).warnings
    assert [one.partition(", unless")[0] for one in warned] == [
        f"network.host_project: {AGENT[15:]} does not have {USER} on subnetwork sub in host",
        f"network.host_project: {SERVICES[15:]} does not have {USER} on subnetwork sub in host",
        f"network.host_project: {AGENT[15:]} does not have {HOST_AGENT} on the project in host",
    ]
    assert warned[0].endswith(
        f"add-iam-policy-binding sub --project host --region us-east5 --member {AGENT} --role {USER}"
    )
    host.set(forbidden=["compute.subnetworks.getIamPolicy"])
    assert ["you may not see" in one for one in plan(desk(), SHARED).warnings] == [True, True, False]
    host.set(forbidden=["compute.subnetworks.use"])
    mine = plan(desk(), SHARED).warnings[0]
    assert "you may not use subnetwork sub in host (compute.subnetworks.use)" in mine
    assert mine.endswith(
        f"add-iam-policy-binding sub --project host --region us-east5 --member user:YOU --role {USER}"
    )
    host.set(forbidden=[])
    told: list[str] = []
    with pytest.raises(SlicebenchError, match=f"lacks {USER} in the host project"):
        up(desk(told.append), SHARED)
    assert [one for one in told if f"warning: {warned[0]}" == one]
    give_on_subnet(host, AGENT, SERVICES)
    Grants("project", QUICK).make("host", f"{HOST_AGENT} for {AGENT}", {}, {})
    assert plan(desk(), SHARED).warnings == []
    before = in_host(host)
    done = up(desk(), SHARED)
    assert "cluster mine" in done.made and not [
        one for one in done.made if "network" in one or "router" in one
    ]
    assert plan(desk(), SHARED).empty
    kinds = {ref.kind: ref for ref in done.resources}
    assert (kinds["gce_network"].ours, kinds["gce_subnetwork"].ours) == (False, False)
    assert kinds["gce_subnetwork"].scope == "host/us-east5"
    gone = down(desk(), SHARED, bucket=True)
    assert not [ref for ref in gone if "host" in ref.scope]
    assert (in_host(host), host.inventory()) == (before, [])
