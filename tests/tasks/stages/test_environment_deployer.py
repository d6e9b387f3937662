"""What `env deployer` makes may do just what it takes: by its roles alone all is made, and given back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from runtime.contract.errors import BadInput, InfrastructureError, SlicebenchError
from tasks.config.environment import EnvironmentConfig
from tasks.config.environment_roles import needs_of, permissions_of, permissions_to_give_back
from tasks.leases.opening import open_ledger
from tasks.stages.environment import bootstrap, down, up
from tasks.stages.environment_deployer import make, remove
from tasks.stages.environment_desk import Desk
from tasks.stages.environment_plan import plan
from tests.cloud.container.hurried import QUICK
from tests.cloud.container.running import Gke
from tests.cloud.project.iam_roles import OF_ROLES
from tests.cloud.project.leasing import desk, environment

OWNER, DEPLOYER = "token-of-the-owner", "token-of-the-deployer"
WHO = "deployer@proj.iam.gserviceaccount.com"
MEMBER = f"serviceAccount:{WHO}"

INSIDE = re.compile(r"container\.(?!clusters|operations)")
"""What the cluster itself asks for, in which nothing is put here."""
CHANGES = {
    "aiplatform.tensorboards.update", "artifactregistry.repositories.update", "compute.firewalls.update",
    "compute.routers.update", "compute.subnetworks.expandIpCidrRange",
    "compute.subnetworks.setPrivateIpGoogleAccess", "compute.subnetworks.update", "iam.serviceAccounts.enable",
    "iam.serviceAccounts.update", "serviceusage.operations.get", "serviceusage.services.enable",
    "storage.buckets.update",
}  # fmt: skip
"""What is changed only where somebody changed it, or where an API is off."""
ELSEWHERE = {"compute.subnetworks.use", "compute.routers.list", "container.operations.list"}
"""What GKE asks for on its own; what is looked at in a network of others, and after a call without a reply."""

OF_WHO_MAY = {"iam.serviceAccountKeys.list"}
"""What is told only to whoever may look."""
NOT_AWAITED = {"compute.instanceGroupManagers.get", "compute.machineTypes.get", "compute.regions.get"}
"""What is looked at beforehand, for people's sake: where that is refused, GKE says whether it can be had."""


class Company:
    """A project whose owner has let somebody make an account for environments; calls are made as either."""

    def __init__(self, project: Gke, monkeypatch: pytest.MonkeyPatch) -> None:
        self.project, self._monkeypatch = project, monkeypatch
        project.set(callers={OWNER: "user:owner@example.com", DEPLOYER: MEMBER})

    def be(self, token: str) -> None:
        self._monkeypatch.setenv("SLICEBENCH_STAND_IN_TOKEN", token)

    def make(self, config: EnvironmentConfig) -> None:
        self.be(OWNER)
        assert make(config, "proj", "deployer", lambda line: None, QUICK) == WHO
        self.be(DEPLOYER)
        assert bootstrap(desk(), config)

    @property
    def desk(self) -> Desk:
        """A desk with the record where it is in earnest."""
        return desk(ledger=open_ledger(environment().record))

    def asked(self) -> list[str]:
        """Returns the permissions that calls of the account took since this was asked last, in their order."""
        with self.project.store.changing() as state:
            found: list[str] = state["project"].get("asked", {}).pop(MEMBER, [])
        return found

    @property
    def inventory(self) -> tuple[dict[str, Any], list[str]]:
        return self.project.project_inventory(), self.project.inventory()

    @contextmanager
    def without(self, role: str) -> Iterator[None]:
        """Takes a role from the account while the block runs."""
        with self.project.store.changing() as state:
            policy = state["project"]["policies"]["projects/proj"]
            kept = policy["bindings"]
            policy["bindings"] = [one for one in kept if (one["role"], one["members"]) != (role, [MEMBER])]
            assert len(policy["bindings"]) == len(kept) - 1, role
        yield
        with self.project.store.changing() as state:
            state["project"]["policies"]["projects/proj"]["bindings"] = kept


@pytest.fixture
def company(project: Gke, monkeypatch: pytest.MonkeyPatch) -> Company:
    return Company(project, monkeypatch)


def test_all_is_made_and_given_back_by_the_roles_of_the_deployer_alone(company: Company) -> None:
    """What is asked of it is what is looked at before: nothing that is missing there, and nothing that is too much."""
    made_and_given_back(company, environment(), CHANGES | ELSEWHERE)


@pytest.mark.system
def test_so_is_what_takes_a_policy_that_places_hosts(company: Company) -> None:
    tpu = {"machine_type": "tpu7x-standard-4t", "topology": "2x2x2"}
    made_and_given_back(company, environment(zone="us-east5-a", tpu=tpu), CHANGES | ELSEWHERE)


def made_and_given_back(company: Company, config: EnvironmentConfig, unasked: set[str]) -> None:
    at_first = company.inventory
    company.make(config)
    before = company.inventory
    needed, to_give_back = (
        set(some["proj"])
        for some in (permissions_of(config, "proj"), permissions_to_give_back(config, "proj", bucket=True))
    )
    up(company.desk, config)
    assert plan(company.desk, config).empty
    up(company.desk, config.model_copy(update={"tpu_pools": 0}))
    assert not [one for one in company.project.inventory() if "/tpu-node-pool-" in one]
    up(company.desk, config)
    to_make = set(company.asked())
    down(company.desk, config, bucket=True)
    gave_back = set(company.asked())
    assert company.inventory == before
    assert gave_back <= to_give_back and to_make - OF_WHO_MAY <= needed
    assert {one for one in needed - to_make - gave_back if not INSIDE.match(one)} <= unasked
    company.be(OWNER)
    assert remove("proj", "deployer", QUICK)
    left = company.inventory[0]
    assert left.pop("buckets") == ["records"]
    assert (left, company.inventory[1]) == at_first


def test_a_role_that_is_missing_is_named_before_anything_is_made(company: Company) -> None:
    """Each is needed: without it there is something that no other one lets the account do."""
    config = environment()
    company.make(config)
    before = company.inventory
    roles = list(dict.fromkeys(need.role for need in needs_of(config)))
    assert set(roles) <= set(OF_ROLES)
    for role in roles:
        with company.without(role):
            if role == "roles/storage.admin":  # without it the record cannot be read either
                with pytest.raises(InfrastructureError, match="the account needs roles/storage"):
                    plan(company.desk, config)
                continue
            with pytest.raises(
                SlicebenchError, match=f"may not do all that is needed|cannot ask .*{re.escape(role)}"
            ) as no:
                up(company.desk, config)
        assert role in str(no.value) + str(getattr(no.value, "problems", "")), role
        assert company.project.inventory() == []
    assert company.inventory == before


@pytest.mark.system
def test_a_permission_that_is_missing_is_named_before_anything_is_made_or_goes(company: Company) -> None:
    config = environment()
    company.make(config)
    before = company.inventory
    record = {one for one in permissions_of(config, "proj")["proj"] if one.startswith("storage.objects.")}
    for one in sorted(set(permissions_of(config, "proj")["proj"]) - record):
        company.project.set(forbidden=[one])
        with pytest.raises(SlicebenchError, match=re.escape(one)):
            up(company.desk, config)
        company.project.set(forbidden=[])
        assert company.inventory == before, one
    up(company.desk, config)
    whole = company.inventory
    for one in sorted(set(permissions_to_give_back(config, "proj", bucket=True)["proj"]) - record):
        company.project.set(forbidden=[one])
        with pytest.raises(BadInput, match=re.escape(f"you may not do all that is needed: {one}")):
            down(company.desk, config, bucket=True)
        company.project.set(forbidden=[])
        assert company.inventory == whole, one
    down(company.desk, config, bucket=True)
    assert company.inventory == before


@pytest.mark.system
def test_a_permission_that_is_taken_in_the_middle_is_named_and_nothing_is_left_behind(
    company: Company,
) -> None:
    """Policies are late: who asks what they may do still hears of what was just taken.

    One after the other, in the order in which they are used: each time a little more of it is there.
    """
    config = environment()
    company.make(config)
    before = company.inventory
    company.asked()
    up(company.desk, config)
    used = company.asked()
    down(company.desk, config, bucket=True)
    of_record = [one for one in used if one.startswith("storage.objects.")]
    looked = [one for one in used if one.endswith((".get", ".list", ".getIamPolicy"))]
    for one in [one for one in used if one not in (*looked, *of_record)]:
        company.project.set(stale=[one])
        with pytest.raises(SlicebenchError, match=re.escape(one)):
            up(company.desk, config)
    company.project.set(stale=[])
    up(company.desk, config)
    for one in sorted({*looked} - {*NOT_AWAITED, *of_record}):
        company.project.set(stale=[one])
        company.asked()
        try:
            up(company.desk, config)
        except SlicebenchError as error:
            assert one in str(error), one
        else:
            assert one not in company.asked(), f"{one} was refused, and nobody heard of it"
    company.project.set(stale=[])
    assert plan(company.desk, config).empty
    down(company.desk, config, bucket=True)
    assert company.inventory == before
