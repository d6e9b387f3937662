"""Shows Kueue's cohorts: what queues lend and borrow, and how an owner gets back what is its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cloud.kubernetes.kueue_cohort import Room
from tests.cloud.kubernetes.manifests import TPU, cluster_queue, jobset, kueue
from tests.cloud.kubernetes.space import Space
from tests.waiting import until

_STAYS = "import time; time.sleep(60)"
CHIPS = ("v5e", "google.com/tpu")


def member(name: str, chips: int, cohort: str = "all", **limits: int) -> dict[str, Any]:
    """Returns a queue with so many chips. `limits`: borrowingLimit, lendingLimit."""
    preemption = {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"}
    made = cluster_queue(name, chips)
    made["spec"] |= {"cohortName": cohort, "preemption": preemption}
    quota = made["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]
    quota |= {limit: str(amount) for limit, amount in limits.items()}
    return made


@pytest.mark.parametrize(
    ("limits", "other", "used", "now", "most"),
    [
        ({}, {}, {}, 24, 24),
        ({}, {}, {"b": 16}, 8, 24),
        ({}, {}, {"a": 8, "b": 8}, 8, 24),
        ({}, {}, {"b": 24}, 0, 24),
        ({"borrowingLimit": 8}, {}, {}, 16, 16),
        ({"borrowingLimit": 0}, {}, {"a": 8}, 0, 8),
        ({"borrowingLimit": 8}, {}, {"a": 8, "b": 12}, 4, 16),
        ({}, {"lendingLimit": 0}, {}, 8, 8),
        ({}, {"lendingLimit": 4}, {"b": 14}, 10, 12),
        ({"lendingLimit": 0}, {}, {"b": 16}, 8, 24),
        ({"lendingLimit": 0}, {}, {"a": 10, "b": 8}, 6, 24),
        ({"lendingLimit": 2, "borrowingLimit": 4}, {}, {"a": 8, "b": 14}, 2, 12),
    ],
)
def test_what_a_queue_may_use_now_and_at_most(
    limits: dict[str, int], other: dict[str, int], used: dict[str, int], now: int, most: int
) -> None:
    queues = [member("a", 8, **limits), member("b", 16, **other), member("c", 99, cohort="another")]
    usage = {name: Counter({CHIPS: amount}) for name, amount in used.items()}
    room = Room(queues[0], queues, usage)
    assert (room.now(CHIPS), room.most(CHIPS)) == (now, most)


@pytest.fixture
def queues(api: Space) -> Iterator[None]:
    """Two teams with a slice each, of which one lends nothing."""
    api.post("resourceflavors", kueue("ResourceFlavor", "v5e", nodeLabels=TPU))
    for made in (member("a", 8), member("b", 8, lendingLimit=0)):
        api.post("clusterqueues", made)
        name = made["metadata"]["name"]
        api.post("localqueues", kueue("LocalQueue", f"l{name}", clusterQueue=name))
    yield
    for name in api.names("jobsets"):
        api.delete("jobsets", name)
    for kind, name in (("clusterqueues", "a"), ("clusterqueues", "b"), ("resourceflavors", "v5e")):
        api.delete(kind, name)
        api.gone(kind, name)


def condition(api: Space, name: str, kind: str) -> tuple[str, str, str]:
    uid = api.get("jobsets", name)["metadata"]["uid"]
    found = api.get("workloads", labelSelector=f"kueue.x-k8s.io/job-uid={uid}")["items"]
    listed = found[0].get("status", {}).get("conditions", []) if found else []
    return next(
        ((one["status"], one["reason"], one["message"]) for one in listed if one["type"] == kind),
        ("", "", ""),
    )


def test_who_borrowed_gives_back_to_the_owner_whatever_its_priority(api: Space, queues: None) -> None:
    quick = {"terminationGracePeriodSeconds": 1}
    api.post("jobsets", jobset("many", _STAYS, slices=2, queue="la", pod=quick))
    until(lambda: condition(api, "many", "QuotaReserved")[1] == "ExceedsMaxQuota")
    assert "> maximum capacity (8)" in condition(api, "many", "QuotaReserved")[2]
    api.delete("jobsets", "many")
    for name in ("own", "borrows"):
        api.post("jobsets", jobset(name, _STAYS, slices=1, queue="lb", pod=quick))
        until(lambda: condition(api, name, "PodsReady")[0] == "True")  # noqa: B023
    used = api.get("clusterqueues", "b")["status"]["flavorsUsage"][0]["resources"][0]
    assert (used["total"], used["borrowed"]) == ("16", "8")
    api.post("jobsets", jobset("owner", _STAYS, slices=1, queue="la", pod=quick))
    until(lambda: condition(api, "owner", "PodsReady")[0] == "True")
    [gone] = [name for name in ("own", "borrows") if condition(api, name, "Evicted")[0] == "True"]
    assert condition(api, gone, "Preempted")[1] == "InCohortReclamation"
    told = condition(api, gone, "Evicted")[2]
    assert "due to reclamation within the cohort; preemptor path: /all/a; preemptee path: /all/b" in told
    until(lambda: condition(api, gone, "QuotaReserved")[1] == "WaitingForQuota")
    api.delete("jobsets", "owner")
    until(lambda: condition(api, gone, "PodsReady")[0] == "True")


def test_limits_need_a_cohort_and_make_sense(api: Space) -> None:
    alone = member("a", 8, borrowingLimit=8)
    del alone["spec"]["cohortName"]
    assert "borrowingLimit must be nil" in api.post("clusterqueues", alone, 422)["message"]
    more = member("a", 8, lendingLimit=9)
    assert "less than or equal to the nominalQuota" in api.post("clusterqueues", more, 403)["message"]
