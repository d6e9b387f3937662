"""The quota of a cluster divided among teams: who has what of its own, and may borrow and lend how much."""

from __future__ import annotations

from typing import Any

import pytest

from tasks.targets.kube_differs import unlike
from tasks.targets.kube_queues import Flavor
from tasks.targets.kube_teams import Share, Teams, queue_for, queues
from tests.cloud.kubernetes.kueue_rules import check

TPU = "google.com/tpu"


def flavors(slices: int) -> list[Flavor]:
    """Returns slices of 16 chips, and 9 processors elsewhere."""
    chips = Flavor(
        "v5e", {"tpu": "v5e"}, {TPU: 16 * slices, "cpu": 400 * slices, "memory": 1000 * slices}, TPU
    )
    return [chips, Flavor("machines", {}, {"cpu": 9, "memory": 90})]


def quotas(queue: Any, flavor: str = "v5e", resource: str = TPU) -> dict[str, str]:
    [group] = queue["spec"]["resourceGroups"]
    [found] = [one for one in group["flavors"] if one["name"] == flavor]
    [quota] = [one for one in found["resources"] if one["name"] == resource]
    return {key: value for key, value in quota.items() if key != "name"}


def of(slices: int, *shares: Share) -> dict[str, Any]:
    made = {one["metadata"]["name"]: one for _, one in queues(flavors(slices), Teams(shares, 16))}
    for one in made.values():
        check({"metadata": {}, "spec": one["spec"]})  # as Kueue would
    return made


def test_each_team_has_its_own_and_what_is_nobodys_is_the_common_queues() -> None:
    made = of(3, Share("a", 1), Share("b", 1, borrow=1, lend=0))
    assert list(made) == ["cluster-queue", "team-a", "team-b"]
    assert {one["spec"]["cohortName"] for one in made.values()} == {"teams"}
    assert {one["spec"]["preemption"]["reclaimWithinCohort"] for one in made.values()} == {"Any"}
    assert quotas(made["cluster-queue"]) == {"nominalQuota": "16"}
    assert quotas(made["team-a"]) == {"nominalQuota": "16"}
    assert quotas(made["team-b"]) == {"nominalQuota": "16", "borrowingLimit": "16", "lendingLimit": "0"}
    assert quotas(made["team-b"], resource="cpu")["borrowingLimit"] == "400"
    assert [quotas(one, "machines", "cpu") for one in made.values()] == [{"nominalQuota": "3"}] * 3
    assert made["team-b"]["metadata"]["labels"]["slicebench-team"] == "b"


@pytest.mark.parametrize(
    ("slices", "own"), [(2, ["0", "16", "16"]), (1, ["0", "16", "0"]), (0, ["0", "0", "0"])]
)
def test_where_slices_are_missing_nobody_has_what_is_not_there(slices: int, own: list[str]) -> None:
    made = of(slices, Share("a", 1, lend=1), Share("b", 1, borrow=0, lend=1))
    assert [quotas(one)["nominalQuota"] for one in made.values()] == own
    assert sum(int(quotas(one, "machines", "cpu")["nominalQuota"]) for one in made.values()) == 9


def test_without_teams_there_is_one_queue_in_no_cohort() -> None:
    [queue] = of(2).values()
    assert "cohortName" not in queue["spec"] and quotas(queue) == {"nominalQuota": "32"}
    assert queue["spec"]["preemption"]["reclaimWithinCohort"] == "Never"


def test_teams_without_slices_wait_in_the_common_queue() -> None:
    teams = Teams([Share("a", 1)], 16)
    assert (queue_for("a", teams), queue_for("guests", teams)) == ("team-a", "cluster-queue")


@pytest.mark.parametrize(
    ("there", "told"),
    [
        ({}, []),
        ({"more": 1}, []),
        ({"resourceGroups": [{"flavors": [{"resources": [{"name": "x", "nominalQuota": "8"}]}]}]},
         ['spec.resourceGroups.0.flavors.0.resources.0.nominalQuota: "8" → "16000"']),
        ({"resourceGroups": []},
         ['spec.resourceGroups.0.flavors.0.resources.0.name: nothing → "x"',
          'spec.resourceGroups.0.flavors.0.resources.0.nominalQuota: nothing → "16000"']),
        ({"cohortName": "other"}, ['spec.cohortName: "other" → nothing']),
        ({"stopPolicy": "Hold"}, ['spec.stopPolicy: "Hold" → "None"']),
    ],
)  # fmt: skip
def test_what_differs_in_a_cluster_is_told_by_its_field(there: dict[str, Any], told: list[str]) -> None:
    groups = [{"flavors": [{"resources": [{"name": "x", "nominalQuota": "16000"}]}]}]
    as_it_is = [{"flavors": [{"resources": [{"name": "x", "nominalQuota": "16k"}]}]}]
    wanted = {"metadata": {"name": "q"}, "spec": {"resourceGroups": groups}}
    has = {"metadata": {"name": "q"}, "spec": {"resourceGroups": as_it_is, **there}}
    assert list(unlike(wanted, has)) == told
