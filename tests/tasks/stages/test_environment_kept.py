"""What others have in an environment's network is told before anything goes, and not waited for: the network stays."""

from __future__ import annotations

import pytest

from runtime.contract.errors import Leaked
from tasks.cloud.container_errors import Refused
from tasks.cloud.google_rest import Rest
from tasks.leases.claim import claim
from tasks.leases.ledger import latest
from tasks.stages.environment import down
from tasks.stages.environment_desk import carry_out
from tasks.stages.environment_plan import plan
from tasks.targets.environment_wanted import wanted
from tests.cloud.container.hurried import QUICK
from tests.cloud.container.leasing import a_ledger
from tests.cloud.container.running import Gke
from tests.cloud.project.leasing import desk, environment, inventories

COMPUTE = "compute/v1/projects/proj"
NETWORK = {"network": "projects/proj/global/networks/net"}


def test_what_others_have_in_the_network_is_told_and_not_waited_for(
    project: Gke, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = claim(a_ledger(), inventories(a_ledger()), "environment-mine_proj", None)
    held.stand(None)
    for kind in ("network", "firewall"):
        one = next(one for one in wanted(environment(), "proj") if one.kind == kind)
        carry_out(desk(), held, desk().step(environment(), one))
    held.live()
    held.detach(None)
    assert not [one for one in plan(desk(), environment()).beside if "network" in one]
    compute = Rest("compute.googleapis.com", timing=QUICK)
    alien = {"name": "alien", "ipCidrRange": "10.99.0.0/24", **NETWORK}
    compute.send("POST", "make it", f"{COMPUTE}/regions/us-west1/subnetworks", alien)
    compute.send("POST", "make it", f"{COMPUTE}/global/firewalls", {"name": "byhand", **NETWORK})
    others = ["subnetwork alien in us-west1", "firewall byhand"]
    told = [f"{one} is in the network, which cannot go before it: left" for one in others]
    assert plan(desk(), environment()).beside == told
    project.forget()
    project.fault("ListFirewall", "error", code="INVALID_ARGUMENT", message="no answer", times=1_000)
    for act in (plan, down):
        with pytest.raises(Refused, match="no answer"):
            act(desk(), environment())
    assert project.mutations() == [], "what keeps the network is known before anything goes"
    project.no_faults()
    monkeypatch.setattr("tasks.stages.environment.KEPT_S", 0.0)
    said: list[str] = []
    for _ in range(3):  # the rule goes first, then it is looked at, then the network is all that is left
        with pytest.raises(Leaked) as ended:
            down(desk(said.append), environment())
    assert "all is gone but the network, for subnetwork alien in us-west1, firewall byhand in it" in str(
        ended.value
    )
    assert (
        said[0]
        == f"warning: the network has {', '.join(others)}, which slicebench did not make: it stays until that is gone"
    )
    lease = latest(a_ledger(), "environment-mine_proj")
    assert lease is not None and [ref.name for ref in lease.resources] == ["net"]
    compute.send("DELETE", "delete it", f"{COMPUTE}/regions/us-west1/subnetworks/alien")
    compute.send("DELETE", "delete it", f"{COMPUTE}/global/firewalls/byhand")
    down(desk(), environment())
    assert project.project_inventory().get("networks", []) == []
