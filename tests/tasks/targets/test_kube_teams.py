"""The quota of a cluster divided among teams: who has what of its own, and may borrow and lend how much."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from tasks.cloud.labels import LEASE
from tasks.config.accelerators import accelerator
from tasks.targets.kube_differs import unlike
from tasks.targets.kube_queues import Flavor, manifests
from tasks.targets.kube_queues import flavors as flavors_of
from tasks.targets.kube_room import Each, Held
from tasks.targets.kube_teams import Share, Teams, queue_for, queues
from tasks.targets.kube_unseen import AMOUNTS, room_with, without_numbers
from tests.cloud.kubernetes.kueue_rules import check

TPU = "google.com/tpu"
TWO = Teams([Share("a", 1), Share("b", 1, borrow=1, lend=0)], 16)


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


AS_IT_IS: list[dict[str, Any]] = [
    {"flavors": [{"name": "f", "resources": [{"name": "x", "nominalQuota": "16k"}]}]}
]


@pytest.mark.parametrize(
    ("there", "told"),
    [
        ({}, []),
        ({"more": 1}, []),
        ({"resourceGroups": [{"flavors": [{"name": "f", "resources": [{"name": "x", "nominalQuota": "8"}]}]}]},
         ['flavors.f.x.nominalQuota: "8" → "16000"']),
        ({"resourceGroups": []}, ['flavors.f.x.nominalQuota: nothing → "16000"']),
        ({"resourceGroups": [{"flavors": [{"name": "g", "resources": []}, *AS_IT_IS[0]["flavors"]]}]},
         ['flavors.g: "more than is wanted" → nothing']),
        ({"cohortName": "other"}, ['spec.cohortName: "other" → nothing']),
        ({"stopPolicy": "Hold"}, ['spec.stopPolicy: "Hold" → "None"']),
        ({"queueingStrategy": "StrictFIFO"}, ['spec.queueingStrategy: "StrictFIFO" → "BestEffortFIFO"']),
        ({"namespaceSelector": {"matchLabels": {"a": "b"}}},
         ['spec.namespaceSelector.matchLabels: {"a": "b"} → nothing']),
        ({"nodeLabels": {"a": "b"}}, ['spec.nodeLabels.a: "b" → nothing']),
        ({"tolerations": [{"key": "a"}]}, ['spec.tolerations: [{"key": "a"}] → nothing']),
        ({"admissionChecksStrategy": {"admissionChecks": ["a"]}},
         ['spec.admissionChecksStrategy: {"admissionChecks": ["a"]} → nothing']),
        ({"stopPolicy": "None", "queueingStrategy": "BestEffortFIFO",
          "preemption": {"borrowWithinCohort": {"policy": "Never"}},
          "flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"}}, []),
    ],
)  # fmt: skip
def test_what_differs_in_a_cluster_is_told_by_its_field(there: dict[str, Any], told: list[str]) -> None:
    groups = [{"flavors": [{"name": "f", "resources": [{"name": "x", "nominalQuota": "16000"}]}]}]
    wanted = {"metadata": {"name": "q"}, "spec": {"resourceGroups": groups}}
    has = {"metadata": {"name": "q"}, "spec": {"resourceGroups": AS_IT_IS, **there}}
    assert list(unlike(wanted, has)) == told


@pytest.mark.parametrize("number", range(7))
def test_each_field_of_a_queue_shows_when_it_is_another(number: int) -> None:
    """Nothing else does, but for parts of a part that is called otherwise."""
    kind, wanted = [*queues(flavors(2), TWO), *manifests(flavors(2), "default")][number]
    assert list(unlike(wanted, wanted)) == []
    for path, value in _fields(wanted):
        if path == ("metadata", "name"):
            continue  # that is another thing
        there: Any = deepcopy(wanted)
        into = there
        for part in path[:-1]:
            into = into[part]
        into[path[-1]] = "5" if path[-1] in AMOUNTS else [*value, "x"] if isinstance(value, list) else "x"
        told = list(unlike(wanted, there))
        assert told and (len(told) == 1 or path[-1] == "name"), (kind.name, path, told)


def _fields(of: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    parts = list(of.items() if isinstance(of, dict) else enumerate(of) if _is_deep(of) else ())
    inner = [
        each for key, value in parts if isinstance(value, dict | list) for each in _fields(value, (*at, key))
    ]
    yield from inner
    yield from (
        ((*at, key), value) for key, value in parts if not isinstance(value, dict) and not _is_deep(value)
    )


def _is_deep(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(one, dict) for one in value)


def test_flavors_are_compared_by_their_names_and_told_in_what_order_they_are() -> None:
    """The first that has room is taken, so their order means something."""
    [wanted] = of(1).values()
    [group] = wanted["spec"]["resourceGroups"]
    turned = {
        **wanted,
        "spec": {**wanted["spec"], "resourceGroups": [{**group, "flavors": group["flavors"][::-1]}]},
    }
    assert list(unlike(wanted, turned)) == [
        'spec.resourceGroups.0.flavors: ["machines", "v5e"] → ["v5e", "machines"]'
    ]


SLICE = accelerator("ct5lp-hightpu-4t", "4x4")
QUEUES = [
    one
    for _, one in queues(flavors_of([Held(SLICE, 8)], {"ct5lp-hightpu-4t": Each(111, 180)}, None, None), TWO)
]


@pytest.mark.parametrize(
    ("limit", "had", "each"),
    [
        (None, QUEUES, Each(111, 180)),
        (1000, QUEUES, Each(111, 180)),
        (500, QUEUES, None),
        (None, [], None),
        (
            None,
            [{**one, "metadata": {**one["metadata"], "labels": {LEASE: "run-e1"}}} for one in QUEUES],
            None,
        ),
    ],
)
def test_what_a_machine_has_that_is_away_is_known_by_the_quota_of_its_kind(
    limit: int | None, had: list[Any], each: Each | None
) -> None:
    away = Held(SLICE, 4)
    room = room_with({}, [away], had, limit, None)
    assert room.get("ct5lp-hightpu-4t") == each
    assert room_with({"ct5lp-hightpu-4t": Each(1, 1)}, [away], had, None, None) == {
        "ct5lp-hightpu-4t": Each(1, 1)
    }


def test_what_nobody_knows_of_a_machine_is_compared_with_nothing() -> None:
    unseen = flavors_of([Held(SLICE, 4)], {}, None, None)
    wanted = [without_numbers(one, unseen) for _, one in queues(unseen, TWO)]
    lines = [list(unlike(one, {"metadata": one["metadata"], "spec": {}})) for one in wanted]
    assert "flavors.v5e-4x4.cpu.nominalQuota: nothing → what its machines have" in lines[1]
    assert 'flavors.v5e-4x4.google.com/tpu.nominalQuota: nothing → "16"' in lines[1]
    assert [
        list(unlike(one, {**one, "spec": made["spec"]}))
        for one, (_, made) in zip(wanted, queues(unseen, TWO), strict=True)
    ] == [[], [], []]
