"""Environments over the stand-in: from nothing to up to pools at zero to up to down, and all as it was before."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from runtime.contract.errors import BadInput, ExitCode, SlicebenchError
from tasks.cloud.google_rest import Rest
from tasks.cloud.grants import Grants
from tasks.leases.claim import claim
from tasks.leases.holding import Taken
from tasks.leases.ledger import latest
from tasks.stages.environment import bootstrap, claimed, down, up
from tasks.stages.environment_plan import plan
from tests.chaos.driver import outcome
from tests.cloud.container.hurried import QUICK
from tests.cloud.container.leasing import a_ledger
from tests.cloud.container.running import Gke
from tests.cloud.project.leasing import desk, environment, inventories
from tests.tasks.stages.changed_by_hand import HAND_MADE, changed_in, steps


def records(project: Gke) -> dict[str, Any]:
    """Returns what there is but for the bucket of the record, which stays."""
    found = project.project_inventory()
    found["buckets"] = [one for one in found.get("buckets", ()) if one != "records"]
    return {kind: names for kind, names in found.items() if names}


def test_what_was_made_is_as_it_is_wanted(project: Gke) -> None:
    done = up(desk(), environment())
    assert {"network net", "bucket artifacts", "cluster mine", "node pool tpu-node-pool-0"} <= set(done.made)
    assert (done.changed, done.gone) == ([], [])
    assert plan(desk(), environment()).empty
    lease = latest(a_ledger(), "environment-mine_proj")
    assert lease is not None
    assert (lease.expires_at, lease.owner, lease.state, lease.note) == (None, None, "live", "")
    with project.store.changing() as state:  # by hand
        [cluster] = state["clusters"].values()
        for pool in cluster["pools"].values():
            del pool["spec"]["config"]["resource_labels"]
        HAND_MADE[0][0](state)
    what_is_nobody_s_is_shown_and_refused_before_anything_is_changed(project)


def what_is_nobody_s_is_shown_and_refused_before_anything_is_changed(project: Gke) -> None:
    """A pool of which nothing says whose it is may be anybody's; all else that is to be done is told as well."""
    planned = plan(desk(), environment())
    assert steps(planned) == [HAND_MADE[0][1]] and not planned.empty
    words = "node pools cpu and tpu-node-pool-0 of mine are there, and not made under this lease"
    assert [str(one).partition(":")[0] for one in planned.problems] == [words]
    project.forget()
    with pytest.raises(BadInput, match=words):
        up(desk(), environment())
    assert project.mutations() == []


@pytest.mark.system
def test_from_nothing_to_up_to_no_tpus_to_up_to_down_leaves_all_as_it_was(project: Gke) -> None:
    apis = ("compute", "aiplatform", "container", "cloudresourcemanager", "storage", "iam")
    project.set(apis_off=[f"{one}.googleapis.com" for one in apis], apis_on_after_s=0.3)
    assert bootstrap(desk(), environment())
    before, said = records(project), []
    up(desk(said.append), environment())
    whole, made = records(project), project.inventory()
    assert plan(desk(), environment()).empty
    assert set(whole) == {
        "networks", "subnetworks", "routers", "firewalls", "accounts", "buckets", "repositories", "tensorboards",
        "roles",
    }  # fmt: skip
    assert [one.rpartition("/")[2] for one in made] == ["mine", "cpu", "tpu-node-pool-0"]
    lease = latest(a_ledger(), "environment-mine_proj")
    assert lease is not None
    assert (lease.expires_at, lease.owner, lease.state, lease.note) == (None, None, "live", "")
    up(desk(), environment(tpu_pools=0))
    assert (records(project), len(project.inventory())) == (whole, 2)
    assert plan(desk(), environment(tpu_pools=0)).empty
    assert [str(one) for one in plan(desk(), environment()).cluster] == ["make pool tpu-node-pool-0"]
    up(desk(), environment())
    assert (records(project), project.inventory()) == (whole, made)
    assert len(down(desk(), environment(), bucket=True)) > 10
    assert (records(project), project.inventory()) == (before, [])
    assert down(desk(), environment(), bucket=True) == []
    with pytest.raises(BadInput, match="nothing of environment other is there"):
        down(desk(), environment(name="other", cluster={"name": "other"}), bucket=True)


@pytest.mark.system
def test_what_is_changed_by_hand_shows_as_that_and_nothing_else(project: Gke) -> None:
    up(desk(), environment())
    for change, shown in HAND_MADE:
        with project.store.changing() as state:
            change(state)
        assert steps(plan(desk(), environment())) == [shown]
        up(desk(), environment())
        assert plan(desk(), environment()).empty
    nodes = "serviceAccount:gke-sa@proj.iam.gserviceaccount.com"
    Grants("project", QUICK).make("proj", f"roles/owner for {nodes}", {}, {})
    Grants("bucket", QUICK).make("artifacts", "roles/storage.objectViewer for allUsers", {}, {})
    with project.store.changing() as state:
        changed_in("buckets", "artifacts", lifecycle={"rule": [{"action": {"type": "Delete"}}]})(state)
        [router] = state["project"]["routers"].values()
        router["nats"][0]["logConfig"] = {"enable": True, "filter": "ALL"}
        [cluster] = state["clusters"].values()
        slices = cluster["pools"]["tpu-node-pool-0"]["spec"]["config"]
        slices["taints"] = [{"key": "a", "value": "b", "effect": "NO_SCHEDULE"}]
        key = "projects/proj/serviceAccounts/gke-sa@proj.iam.gserviceaccount.com/keys/0abc"
        made = {"name": key, "keyType": "USER_MANAGED", "validBeforeTime": "9999-12-31T23:59:59Z"}
        state["project"]["accounts"]["gke-sa@proj.iam.gserviceaccount.com"]["keys"] = [made]
    beside = [
        f"{nodes} has roles/owner on the project: not given here, and left",
        "everybody (allUsers) has roles/storage.objectViewer on bucket artifacts: not given here, and left",
        "service account gke-sa has a key 0abc, valid before 9999-12-31: whoever has it acts as the account, from "
        "anywhere; not made here, and left",
        "router net-router logs connections of its NAT nat: not asked for, and left",
        'bucket artifacts has lifecycle rules, which may delete objects ([{"action": {"type": "Delete"}}]): not asked '
        "for, and left",
        'node pool tpu-node-pool-0 bars pods that do not tolerate it ([{"key": "a", "value": "b", "effect": '
        '"NO_SCHEDULE"}]): not asked for, and left',
    ]
    assert (plan(desk(), environment()).beside, plan(desk(), environment()).empty) == (beside, True)
    quiet = environment(
        cluster={"name": "mine", "private": True, "channel": "rapid", "description": "another"}
    )
    assert steps(plan(desk(), quiet)) == [
        'cluster mine [release_channel.channel: "STABLE" → "RAPID"]',
        'cluster mine [description: "TPU training and checkpoint benchmarks" → "another"]',
    ]
    told: list[str] = []
    up(desk(told.append), quiet)
    assert steps(plan(desk(), quiet)) == [
        'cluster mine [description: "TPU training and checkpoint benchmarks" → "another"]'
    ]
    assert [one for one in told if "warning: cluster mine stays as it is: description" in one]
    up(desk(), environment())
    other = environment(network={"name": "net", "subnet": "sub", "subnet_range": "10.8.0.0/20"})
    shown = 'change subnetwork sub [ipCidrRange: "10.129.0.0/20" → "10.8.0.0/20"]'
    assert steps(plan(desk(), other)) == [shown]
    said: list[str] = []
    up(desk(said.append), other)
    assert [one for one in said if "ipCidrRange" in one and "cannot be changed" in one]
    grown = environment(network={"name": "net", "subnet": "sub", "subnet_range": "10.129.0.0/18"})
    up(desk(), grown)
    assert plan(desk(), grown).empty


def failing(project: Gke, *, then: Callable[[], None] = lambda: None, **settings: Any) -> str:
    """Tries to make an environment where something is wrong; returns what is told. Afterwards it is made, and goes."""
    usual = {name: project.store.read()["settings"][name] for name in settings}
    before = records(project), project.inventory()
    project.set(**settings)
    with pytest.raises(SlicebenchError) as error:
        up(desk(), environment())
    then()
    project.set(**usual)
    up(desk(), environment())
    assert plan(desk(), environment()).empty
    down(desk(), environment(), bucket=True)
    assert (records(project), project.inventory()) == before
    return str(error.value)


STOCKOUT = "0 of 1 node pools of mine are there: .*GCE_STOCKOUT"


@pytest.mark.system
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"taken_buckets": ["artifacts"]}, "the name is taken by somebody whose bucket you may not look at"),
        (
            {"quotas": {"CPUS/us-east5": 1}},
            "have 12 CPUs, and of the quota CPUS .* 1 are left",
        ),
        ({"quotas": {"CT5LP/us-east5": 4}}, "TPUS_PER_TPU_FAMILY"),
        ({"stockouts": ["us-east5-b/ct5lp-hightpu-4t"]}, STOCKOUT),
        (
            {"forbidden": ["compute.routers.create"]},
            "you may not do all that is needed: compute.routers.create",
        ),
        ({"failing_clusters": ["mine"]}, "0 nodes out of 1 have registered"),
    ],
)
def test_what_goes_wrong_is_told_and_made_good_by_doing_it_again(
    project: Gke, settings: dict[str, Any], words: str
) -> None:
    def rest_is_there() -> None:
        """Where pools alone are missing, pods on the others may act as their account."""
        roles = project.project_inventory().get("roles", [])
        there = any("workloadIdentityUser" in one for one in roles)
        assert there is (words in ("TPUS_PER_TPU_FAMILY", STOCKOUT))

    assert re.search(words, failing(project, then=rest_is_there, **settings))


@pytest.mark.system
@pytest.mark.parametrize(
    "call",
    [
        "InsertNetwork",
        "InsertSubnetwork",
        "InsertRouter",
        "InsertFirewall",
        "CreateServiceAccount",
        "SetAccountPolicy",
        "SetProjectPolicy",
        "CreateBucket",
        "SetBucketPolicy",
        "CreateRepository",
        "CreateTensorboard",
        "CreateCluster",
        "CreateNodePool",
    ],
)
def test_a_permission_that_is_lacking_in_the_middle(project: Gke, call: str) -> None:
    project.fault(call, "error", code="PERMISSION_DENIED", message="Required 'some.permission'", times=9)
    assert "Required 'some.permission'" in failing(project, then=project.no_faults)


@pytest.mark.system
def test_a_place_without_the_machines_is_refused_before_anything_is_made(project: Gke) -> None:
    before = records(project), project.inventory()
    elsewhere = environment(tpu={"machine_type": "ct5p-hightpu-4t", "topology": "2x2x2"})
    with pytest.raises(BadInput, match="us-east5-b.*us-east5-a"):
        up(desk(), elsewhere)
    assert (records(project), project.inventory()) == before


@pytest.mark.system
@pytest.mark.parametrize("action", ["lose_reply", "error"])
def test_replies_that_are_lost_and_services_that_falter_are_no_matter(project: Gke, action: str) -> None:
    before = records(project), project.inventory()
    for nth in range(1, 40, 3):
        project.fault("mutating", action, nth=nth, code="UNAVAILABLE")
    up(desk(), environment())
    assert plan(desk(), environment()).empty
    down(desk(), environment(), bucket=True)
    assert (records(project), project.inventory()) == before


@pytest.mark.system
def test_accounts_are_seen_late_policies_are_written_by_others_and_gke_leaves_rules_behind(
    project: Gke,
) -> None:
    before = records(project), project.inventory()
    project.set(accounts_seen_after_s=1.0, etag_conflicts=5, rules_stay=True, operation_s=0.1)
    up(desk(), environment())
    down(desk(), environment(), bucket=True)
    assert (records(project), project.inventory()) == before


@pytest.mark.system
def test_what_was_there_before_is_used_and_stays(project: Gke) -> None:
    network = {"name": "net", "autoCreateSubnetworks": False, "routingConfig": {"routingMode": "REGIONAL"}}
    compute = Rest("compute.googleapis.com", timing=QUICK)
    compute.send("POST", "make it", "compute/v1/projects/proj/global/networks", network)
    Grants("project", QUICK).make("proj", "roles/logging.logWriter for user:me@example.com", {}, {})
    before = records(project)
    up(desk(), environment())
    lease = latest(a_ledger(), "environment-mine_proj")
    assert lease is not None
    assert [ref.name for ref in lease.resources if not ref.ours] == ["net"]
    down(desk(), environment(), bucket=True)
    assert records(project) == before
    compute.send("PATCH", "change it", "compute/v1/projects/proj/global/networks/net", {"mtu": 1500})
    other = {"name": "net", "autoCreateSubnetworks": True}
    compute.send("DELETE", "delete it", "compute/v1/projects/proj/global/networks/net")
    compute.send("POST", "make it", "compute/v1/projects/proj/global/networks", other)
    with pytest.raises(BadInput, match="network net: it was there before, and is another one"):
        up(desk(), environment())
    assert {one.do for one in plan(desk(), environment()).steps} == {"refuse", "make"}


def test_a_network_that_is_there_gets_a_way_out_unless_it_has_one(project: Gke) -> None:
    there = environment(network={"name": "net", "subnet": "sub", "existing": True})
    compute, region = (
        Rest("compute.googleapis.com", timing=QUICK),
        "compute/v1/projects/proj/regions/us-east5",
    )
    network = {"name": "net", "autoCreateSubnetworks": True}
    compute.send("POST", "make it", "compute/v1/projects/proj/global/networks", network)
    router: dict[str, Any] = {"name": "theirs", "network": "projects/proj/global/networks/net", "nats": []}
    compute.send("POST", "make it", f"{region}/routers", router)

    def told() -> list[str]:
        planned = plan(desk(), there)
        assert not [one for one in planned.steps if one.wanted.kind == "firewall"]
        ways = [str(one) for one in planned.steps if one.wanted.kind == "router"]
        return [*ways, *(one for one in planned.beside if "router" in one)]

    assert told() == ["make router net-router"]
    others = {"name": "x/other", "sourceIpRangesToNat": ["ALL_IP_RANGES"]}
    some = {"name": "some", "sourceSubnetworkIpRangesToNat": "LIST_OF_SUBNETWORKS", "subnetworks": [others]}
    unsaid = {"name": "net", "subnet": "sub", "existing": True, "nat": False}
    compute.send("PATCH", "change it", f"{region}/routers/theirs", {"nats": [some]})
    assert told() == ["make router net-router"]
    [mine] = [one for one in plan(desk(), there).steps if one.wanted.kind == "router"]
    [own] = mine.wanted.fields["nats"]
    assert [one["name"] for one in own["subnetworks"]] == ["projects/proj/regions/us-east5/subnetworks/sub"]
    compute.send("POST", "make it", f"{region}/routers", {**mine.wanted.fields, "name": "tried"})
    compute.send("DELETE", "delete it", f"{region}/routers/tried")
    words = (
        "network.nat: no NAT of network net in us-east5 is for subnetwork sub (that of theirs is for others): private "
        "nodes reach nothing outside of Google"
    )
    [warning] = plan(desk(), environment(network=unsaid)).warnings
    assert warning.startswith(words)
    for source, out in (("LIST_OF_SECONDARY_IP_RANGES", False), ("PRIMARY_IP_RANGE", True)):
        ours = {**others, "name": "x/sub", "sourceIpRangesToNat": [source]}
        nats = {"nats": [{**some, "subnetworks": [others, ours]}]}
        compute.send("PATCH", "change it", f"{region}/routers/theirs", nats)
        assert plan(desk(), environment(network=unsaid)).warnings == ([] if out else [warning])
    every = {"name": "every", "sourceSubnetworkIpRangesToNat": "ALL_SUBNETWORKS_ALL_IP_RANGES"}
    compute.send("PATCH", "change it", f"{region}/routers/theirs", {"nats": [every]})
    assert told() == ["router theirs lets nodes of network net out: no other one is made"]
    asked = plan(desk(), environment(network={**unsaid, "nat": True}))
    assert [str(one).partition(",")[0] for one in asked.against] == [
        "network.nat: router theirs lets subnetwork sub out already"
    ]


@pytest.mark.system
def test_the_bucket_stays_unless_it_is_asked_for_and_is_emptied_only_by_leave(project: Gke) -> None:
    up(desk(), environment())
    with project.store.changing() as state:
        state["project"]["objects"]["artifacts/run/x"] = {"name": "run/x", "generation": "5", "content": ""}
    with pytest.raises(BadInput, match="bucket artifacts is not empty, so nothing was given back"):
        down(desk(), environment(), bucket=True)
    down(desk(), environment())
    assert records(project)["buckets"] == ["artifacts"]
    up(desk(), environment())  # it is found again
    assert plan(desk(), environment()).empty
    down(desk(), environment())
    down(desk(), environment(bucket={"name": "artifacts", "force_destroy": True}), bucket=True)
    assert "buckets" not in records(project)


def test_a_bucket_of_others_stays_and_may_be_full(project: Gke) -> None:
    held = claim(a_ledger(), inventories(a_ledger()), "environment-mine_proj", None)
    held.stand(None)
    held.detach(None)
    rest = Rest("storage.googleapis.com", timing=QUICK)
    rest.send("POST", "make it", "storage/v1/b?project=proj", {"name": "artifacts", "location": "US-EAST5"})
    with project.store.changing() as state:
        state["project"]["objects"]["artifacts/run/x"] = {"name": "run/x", "generation": "5", "content": ""}
    said: list[str] = []
    down(desk(said.append), environment(), bucket=True)
    assert records(project)["buckets"] == ["artifacts"]
    assert "bucket artifacts was not made for it: it stays" in said
    with project.store.changing() as state:
        state["project"]["objects"].clear()
        del state["project"]["buckets"]["artifacts"]
    claim(a_ledger(), inventories(a_ledger()), "environment-mine_proj", None).detach(None)
    down(desk(said.append), environment(), bucket=True)
    assert "bucket artifacts is gone already" in said


def test_who_works_on_it_is_waited_for_as_long_as_one_says(
    project: Gke, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    busy = [Taken("environment-mine_proj is held by me"), Taken("environment-mine_proj is held by me")]

    def claiming(*words: Any, **named: Any) -> Any:
        if busy:
            raise busy.pop()
        return claim(*words, **named)

    monkeypatch.setattr("tasks.stages.environment.claim", claiming)
    held = claimed(desk(said.append), "environment-mine_proj", 3600.0)
    held.release("test")
    assert said == ["environment-mine_proj is held by me. Waiting until that is done, 60 min at most"]
    busy.append(Taken("held"))
    with pytest.raises(Taken):
        claimed(desk(), "environment-mine_proj", 0.0)


def test_of_two_who_apply_at_once_one_is_refused(project: Gke, capfd: pytest.CaptureFixture[str]) -> None:
    held = claim(a_ledger(), inventories(a_ledger()), "environment-mine_proj", None)
    with held.renewing():
        assert outcome(lambda: up(desk(), environment())) == ExitCode.INFRASTRUCTURE
    told = capfd.readouterr().err
    assert re.search("Taken: environment-mine_proj is held by .*: wait for it or stop it", told)
    assert (project.inventory(), project.mutations()) == ([], [])
