"""What an environment's file does not name any more: what is lost by nobody goes, the rest stays and is told."""

from __future__ import annotations

from tasks.cloud.grants import Grants
from tasks.config.environment import EnvironmentConfig
from tasks.leases.claim import claim
from tasks.stages.environment import down
from tasks.stages.environment_asked import asked
from tasks.stages.environment_beside import beside
from tasks.stages.environment_desk import KIND_OF, carry_out
from tasks.stages.environment_unnamed import give_back_unnamed, make_way, unnamed
from tasks.targets.environment_wanted import wanted
from tests.cloud.container.hurried import QUICK
from tests.cloud.container.leasing import a_ledger
from tests.cloud.container.running import Gke
from tests.cloud.project.leasing import desk, environment, inventories

NODES, WORKLOADS = (
    f"serviceAccount:{name}@proj.iam.gserviceaccount.com" for name in ("gke-sa", "cloud-tpu-sa")
)


def less() -> EnvironmentConfig:
    """An environment without what leads in and out, with fewer roles, and another bucket and account of nodes."""
    return environment(
        network={"name": "net", "subnet": "sub", "iap": False, "nat": False},
        accounts={"nodes": {"name": "other-sa"}, "workloads": {"roles": ["logging.logWriter"]}},
        registry=None,
        tensorboard=None,
        bucket={"name": "second", "force_destroy": True},
    )


def test_what_the_file_does_not_name_any_more_goes_or_is_told(project: Gke) -> None:
    said: list[str] = []
    at = desk(said.append)
    held = claim(a_ledger(), inventories(a_ledger()), "environment-mine_proj", None)
    held.stand(None)
    for one in wanted(environment(), "proj"):
        if one.kind in KIND_OF and one.kind != "account role":
            carry_out(at, held, at.step(environment(), one))
    assert unnamed(at, environment()) == []
    found = unnamed(at, less())
    reads = "bucket role roles/storage.legacyBucketReader for"
    goes = {
        "router net-router",
        "firewall net-allow-iap",
        f"role roles/storage.objectAdmin for {WORKLOADS}",
        f"{reads} {WORKLOADS}",
    }
    assert {str(one) for one in found if one.goes} == goes
    nodes = ("storage.objectAdmin", "logging.logWriter", "artifactregistry.reader", "monitoring.metricWriter")
    stays = {"service account gke-sa", "bucket artifacts", "repository ml-images", "tensorboard mine"}
    stays |= {f"{reads} {NODES}", *(f"role roles/{role} for {NODES}" for role in nodes)}
    assert {str(one) for one in found if not one.goes} == stays
    assert beside(at, less(), frozenset(), [one.ref for one in found]) == []
    give_back_unnamed(at, less(), held)
    assert {str(one) for one in unnamed(at, less())} & goes == set()
    there = project.project_inventory()
    assert not {"routers", "firewalls"} & there.keys() and there["repositories"]
    held.detach(None)
    with project.store.changing() as state:
        state["project"]["objects"]["artifacts/run/x"] = {"name": "run/x", "generation": "5", "content": ""}
    down(at, less(), bucket=True)
    assert "bucket artifacts stays: the file does not name it any more" in said
    assert project.project_inventory()["buckets"] == ["artifacts"]
    assert project.store.read()["project"]["objects"]


def test_a_router_of_another_name_takes_the_place_of_the_one_before(project: Gke) -> None:
    """Two NATs for the same subnetworks are refused: the one before goes first."""
    held = claim(a_ledger(), inventories(a_ledger()), "environment-mine_proj", None)
    held.stand(None)
    renamed = environment(network={"name": "net", "subnet": "sub", "router": "other"})
    for config, gone in ((environment(), []), (renamed, ["router net-router"]), (renamed, [])):
        steps = [
            desk().step(config, one) for one in asked(desk(), config) if one.kind in ("network", "router")
        ]
        assert make_way(desk(), config, held, steps) == gone
        for step in steps:
            carry_out(desk(), held, step)
    assert [one.partition("/routers/")[2] for one in project.store.read()["project"]["routers"]] == ["other"]


def test_a_role_that_somebody_else_had_given_hides_none_of_those_that_go(project: Gke) -> None:
    at = desk()
    held = claim(a_ledger(), inventories(a_ledger()), "environment-mine_proj", None)
    held.stand(None)
    theirs = f"roles/logging.logWriter for {NODES}"
    for one in wanted(environment(), "proj"):
        if one.kind in ("service account", "role"):
            if one.name == theirs:
                Grants("project", QUICK).make("proj", theirs, {}, {})
            carry_out(at, held, at.step(environment(), one))
    held.fall()
    done = held.release("it goes")
    assert len(done.deleted) == 7
    left = [one for one in project.project_inventory()["roles"] if "serviceAccount" in one]
    assert [one.split(": ")[1] for one in left] == ["roles/logging.logWriter"], (
        "that of the other stays, of nobody now"
    )
