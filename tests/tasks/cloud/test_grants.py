"""Roles and accounts over the stand-in: policies that others write, accounts seen late, what a deployer may do."""

from __future__ import annotations

import re
from typing import Any

import pytest

from runtime.contract.errors import BadInput
from tasks.cloud.container_errors import Busy, PermissionDenied
from tasks.cloud.google_rest import Rest
from tasks.cloud.grants import Grants
from tasks.cloud.things import ServiceAccounts
from tasks.config.environment_roles import needs_of
from tasks.stages.environment_deployer import make, only, remove
from tests.cloud.container.hurried import QUICK
from tests.cloud.container.running import Gke
from tests.cloud.project.leasing import environment

LOGS = "roles/logging.logWriter for serviceAccount:worker@proj.iam.gserviceaccount.com"


def account(name: str = "worker") -> None:
    ServiceAccounts(rest=Rest("iam.googleapis.com", timing=QUICK)).make("proj", name, {}, {})


def roles(project: Gke) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = project.store.read()["project"]["policies"]["projects/proj"]["bindings"]
    return [one for one in found if one["role"] != "roles/owner"]


def test_a_role_is_given_once_and_taken_whoever_else_writes_the_policy(project: Gke) -> None:
    account()
    project.set(etag_conflicts=2)
    for _ in range(2):
        Grants("project", QUICK).make("proj", LOGS, {}, {})
    [binding] = roles(project)
    assert binding["members"] == ["serviceAccount:worker@proj.iam.gserviceaccount.com"]
    assert Grants("project", QUICK).look("proj", LOGS) is not None
    Grants("project", QUICK).delete("proj", LOGS)
    assert roles(project) == []
    assert len(project.requests("SetProjectPolicy")) == 4


def test_an_account_that_policies_do_not_know_yet_is_waited_for(project: Gke) -> None:
    account()
    project.set(accounts_seen_after_s=0.5)
    Grants("project", QUICK).make("proj", LOGS, {}, {})
    assert [one["outcome"] for one in project.requests("SetProjectPolicy")][-1] == "OK"


def test_what_an_account_leaves_in_a_policy_when_it_went_first_is_taken_as_well(project: Gke) -> None:
    account()
    Grants("project", QUICK).make("proj", LOGS, {}, {})
    ServiceAccounts(rest=Rest("iam.googleapis.com", timing=QUICK)).delete("proj", "worker")
    assert roles(project)[0]["members"][0].startswith("deleted:serviceAccount:worker@")
    Grants("project", QUICK).delete("proj", LOGS)
    assert roles(project) == []


def test_a_policy_that_is_always_being_written_is_given_up_on(project: Gke) -> None:
    account()
    project.set(etag_conflicts=10_000)
    timing = type(QUICK)(try_s=20.0, total_s=0.3, first_pause_s=0.01, longest_pause_s=0.1)
    with pytest.raises(Busy, match="concurrent policy changes"):
        Grants("project", timing).make("proj", LOGS, {}, {})


def test_what_may_not_be_done_is_told_at_once(project: Gke) -> None:
    account()
    project.set(forbidden=["resourcemanager.projects.setIamPolicy"])
    words = "resourcemanager.projects.setIamPolicy.*: grant roles/resourcemanager.projectIamAdmin$"
    with pytest.raises(PermissionDenied, match=words):
        Grants("project", QUICK).make("proj", LOGS, {}, {})
    assert len(project.requests("SetProjectPolicy")) == 1


def test_a_deployer_gets_what_is_needed_and_gives_no_other_roles_and_goes_without_a_trace(
    project: Gke,
) -> None:
    config, before = environment(), project.project_inventory()
    told: list[str] = []
    for _ in range(2):
        who = make(config, "proj", "deployer", told.append, QUICK)
    said = [line.split()[2].rstrip(",") for line in told if line.startswith("give it")]
    assert said == list(dict.fromkeys(need.role for need in needs_of(config))), "each once"
    there = project.store.read()["project"]["accounts"][who]
    assert "env deployer" in there["description"]
    given = {one["role"] for one in roles(project) if f"serviceAccount:{who}" in one["members"]}
    assert given == {need.role for need in needs_of(config)}
    [limited] = [one for one in roles(project) if "condition" in one]
    assert limited["role"] == "roles/resourcemanager.projectIamAdmin"
    assert limited["condition"] == only(config, "proj")
    assert (
        "hasOnly(['roles/artifactregistry.reader', 'roles/logging.logWriter'"
        in limited["condition"]["expression"]
    )
    Grants("project", QUICK).make("proj", f"roles/viewer for serviceAccount:{who}", {}, {})  # conditions stay
    assert limited in roles(project)
    assert remove("proj", "deployer", QUICK)
    assert not remove("proj", "deployer", QUICK)
    assert project.project_inventory() == before


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("payroll", "payroll@proj.iam.gserviceaccount.com is there, and `env deployer` did not make it"),
        ("gke-sa", "--name gke-sa is the account of nodes"),
        ("X", "--name must be the id of a service account"),
    ],
)
def test_an_account_of_somebody_else_becomes_no_deployer_and_is_not_taken_away(
    project: Gke, name: str, told: str
) -> None:
    for there in ("payroll", "gke-sa"):
        account(there)
        Grants("project", QUICK).make(
            "proj", f"roles/editor for serviceAccount:{there}@proj.iam.gserviceaccount.com", {}, {}
        )
    before = project.project_inventory()
    with pytest.raises(BadInput, match=re.escape(told)):
        make(environment(), "proj", name, lambda line: None, QUICK)
    with pytest.raises(BadInput):
        remove("proj", name, QUICK)
    assert project.project_inventory() == before
