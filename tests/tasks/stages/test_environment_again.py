"""An environment made again under the names that it had: what Google keeps of what was deleted is in no way."""

from __future__ import annotations

import pytest

from tasks.cloud.container_errors import AlreadyExists
from tasks.cloud.google_rest import Rest
from tasks.cloud.grants import Grants
from tasks.stages.environment import down, up
from tasks.stages.environment_making import made
from tasks.stages.environment_plan import plan
from tasks.targets.environment_wanted import wanted
from tests.cloud.container.hurried import QUICK
from tests.cloud.container.running import Gke
from tests.cloud.project.leasing import desk, environment

NODES = "serviceAccount:gke-sa@proj.iam.gserviceaccount.com"


def has_viewer(project: Gke) -> list[str]:
    """Returns the members of a role that somebody gave the nodes' account by hand."""
    bindings = project.store.read()["project"]["policies"]["projects/proj"]["bindings"]
    return [member for one in bindings if one["role"] == "roles/viewer" for member in one["members"]]


@pytest.mark.system
def test_names_of_what_was_deleted_are_taken_again_and_roles_of_the_dead_are_not(project: Gke) -> None:
    """Accounts live on in policies, and buckets for a week; cluster, network and repository leave nothing."""
    first = {(ref.kind, ref.name): ref.uid for ref in up(desk(), environment()).resources}
    Grants("project", QUICK).make("proj", f"roles/viewer for {NODES}", {}, {})
    assert (
        f"{NODES} has roles/viewer on the project: not given here, and left"
        in plan(desk(), environment()).beside
    )
    down(desk(), environment(), bucket=True)
    uid = first["service_account", "gke-sa"]
    assert has_viewer(project) == [f"deleted:{NODES}?uid={uid}"]
    kept = project.store.read()["project"]
    assert [name.partition("#")[0] for name in kept["gone_buckets"]] == ["artifacts"]
    second = {(ref.kind, ref.name): ref.uid for ref in up(desk(), environment()).resources}
    assert second.keys() == first.keys()
    assert not [
        key for key in (("service_account", "gke-sa"), ("bucket", "artifacts")) if first[key] == second[key]
    ]
    planned = plan(desk(), environment())
    assert planned.empty and not [one for one in planned.beside if "roles/viewer" in one]
    assert has_viewer(project) == [f"deleted:{NODES}?uid={uid}"], "it is not the new one's"
    down(desk(), environment(), bucket=True)
    assert project.inventory() == []


def test_an_account_that_is_not_there_is_looked_for_in_its_project(project: Gke) -> None:
    """Looked for in any project, IAM says that it may not be looked at."""
    grants, role = Grants("account", QUICK), "roles/iam.workloadIdentityUser for user:me@example.com"
    assert grants.look("gone-sa@proj.iam.gserviceaccount.com", role) is None
    assert grants.given("gone-sa@mine.example.com.iam.gserviceaccount.com") == []
    [_, asked] = [one for one in project.store.requests() if one["method"] == "GetAccountPolicy"]
    assert asked["request"]["path"].startswith("v1/projects/example.com:mine/serviceAccounts/")


def test_what_somebody_else_made_meanwhile_is_not_taken(project: Gke) -> None:
    """Between the look and the call: what is there then by this name is theirs."""
    network = next(one for one in wanted(environment(), "proj") if one.kind == "network")
    compute = Rest("compute.googleapis.com", timing=QUICK)
    theirs = {"name": network.name, **network.fields}
    compute.send("POST", "make it", "compute/v1/projects/proj/global/networks", theirs)
    with pytest.raises(AlreadyExists, match="network net was made by somebody else: choose another name"):
        made(desk(), desk().sort(network), network, {"slicebench-lease": "ours"})
