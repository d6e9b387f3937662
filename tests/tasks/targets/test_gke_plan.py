"""What a run on Kubernetes would make and cost, and what it is refused for before anything is made."""

from __future__ import annotations

import re
from typing import Any

import pytest

from runtime.contract.errors import BadInput
from tasks.config.spec import SourceSpec
from tasks.targets.gke import GkeTarget
from tasks.targets.gke_cluster import made_as
from tasks.targets.types import Plan
from tests.tasks.config.test_gke_target import CLUSTER, spec_of
from tests.tasks.targets.kube_made import PATHWAYS, config
from tests.tasks.targets.local_runs import point

CPUS = {"type": "n2-standard-32-1", "slices": 1}


def planned(target: dict[str, Any] | None = None, **fields: Any) -> Plan:
    made = config(**(target or {}))
    return GkeTarget(made).plan(spec_of(made, **fields))


def test_workers_and_devices_follow_from_the_type() -> None:
    plan = planned()
    assert (plan.workers, plan.slices, plan.devices_per_worker, plan.platform) == (8, 2, 4, "tpu")
    assert planned({"type": "tpu7x-16", "containers_per_host": 2}).devices_per_worker == 4
    assert planned({"type": "l4-8", "nodes": 2, "slices": 1}).workers == 2
    plan = planned({"type": "cpu", "nodes": 2, "slices": 1}, points=[point(devices=8)])
    assert (plan.workers, plan.devices_per_worker, plan.platform) == (2, 4, "cpu")


@pytest.mark.parametrize(
    ("target", "place"),
    [
        ({}, ""),
        ({"cluster": CLUSTER}, "us-west4"),
        ({"cluster": {**CLUSTER, "location": "us-west4"}}, "us-west4"),
        ({"cluster": {**CLUSTER, "location": "us-west4", "zone": "us-west4-b"}}, "us-west4"),
    ],
)
def test_what_numbers_depend_on_is_told_of_the_machines(target: dict[str, Any], place: str) -> None:
    told = planned(target).machine
    assert told == {"target": "gke", "type": "v5litepod-16", "topology": "4x4", "region": place}


def test_a_run_on_a_context_makes_a_jobset_and_a_secret_if_it_has_secrets() -> None:
    jobset, trial = planned().resources
    ends = "its pods end themselves when nobody renews"
    assert (jobset.kind, jobset.scope, jobset.dead_man) == ("jobset", "context c/default", ends)
    assert (trial.kind, trial.scope, trial.name) == ("jobset", jobset.scope, f"{jobset.name}-smoke")
    assert trial.dead_man.startswith("900 s after it began; made only where the image is new")
    with_limit = planned({"limits": {"workload_s": 60}, "smoke": False}, secret_env=frozenset({"A"}))
    assert [(each.kind, each.dead_man) for each in with_limit.resources] == [
        ("jobset", f"{ends}, or 60 s after it began"),
        ("secret", "goes with its JobSet"),
    ]
    assert (with_limit.price_per_hour, with_limit.keepable) == (0.0, ())


def test_a_cluster_that_may_be_made_is_in_the_plan_with_its_price() -> None:
    plan = planned({"cluster": CLUSTER})
    assert [(each.kind, each.scope, each.name) for each in plan.resources[:3]] == [
        ("gke_cluster", "p/us-west4-a", "c"),
        ("gke_node_pool", "p/us-west4-a/c", "np-0"),
        ("gke_node_pool", "p/us-west4-a/c", "np-1"),
    ]
    assert plan.price_per_hour == pytest.approx(32 * 0.48)
    region = {**CLUSTER, "location": "us-west4", "capacity": "on_demand"}
    assert planned({"cluster": region}).price_per_hour == pytest.approx(32 * 1.2)
    assert planned({"cluster": {**CLUSTER, "create": "never"}}).price_per_hour == 0.0
    assert planned({"cluster": CLUSTER, "type": "tpu7x-16"}).price_per_hour is None


@pytest.mark.parametrize(
    ("place", "zone"),
    [
        ({"location": "us-east5"}, None),
        ({"location": "us-east5", "zone": "us-east5-b"}, "us-east5-b"),
        ({"location": "us-east5-b"}, "us-east5-b"),
        ({"location": "us-central1-ai1a"}, "us-central1-ai1a"),
    ],
)
def test_machines_are_made_in_a_zone(place: dict[str, Any], zone: str | None) -> None:
    target = config(cluster={"name": "c", "project": "p", **place})
    if zone is None:
        with pytest.raises(BadInput, match="us-east5 is a region, and does not say where machines"):
            made_as(target)
    else:
        assert made_as(target).zone == zone


@pytest.mark.parametrize("location", ["us-east5", "us-east5-a"])
def test_a_workload_policy_that_is_made_with_it_is_too(location: str) -> None:
    place = {**CLUSTER, "location": location}
    policy = planned({"cluster": place, "type": "tpu7x-16"}).resources[1]
    assert (policy.kind, policy.scope, policy.name) == (
        "gce_resource_policy", "p/us-east5", "sb-cluster-c-p-e1-2x2x2",
    )  # fmt: skip
    for more in ({"make": {"placement_policy": "mine"}}, {"create": "never"}):
        kinds = [each.kind for each in planned({"cluster": {**place, **more}, "type": "tpu7x-16"}).resources]
        assert "gce_resource_policy" not in kinds


def test_how_what_is_made_is_paid_for_and_ends_is_shown() -> None:
    assert planned({"cluster": CLUSTER}).capacity == "spot"
    assert planned({"cluster": {**CLUSTER, "capacity": "on_demand"}}).capacity == "on_demand"
    assert planned({"cluster": {**CLUSTER, "create": "never"}}).capacity == ""
    limited = planned({"cluster": {**CLUSTER, "capacity": "flex_start", "make": {"max_run": "12h"}}})
    assert limited.resources[1].dead_man == "its machines go 12h after they came; the pool stays"


def test_project_and_location_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLICEBENCH_PROJECT", "mine")
    monkeypatch.setenv("SLICEBENCH_ZONE", "us-east5-b")
    assert planned({"cluster": {"name": "c"}}).resources[0].scope == "mine/us-east5-b"


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ({}, "v5litepod-16 is the type of one slice: 2 slices x v5litepod-16 .* are 32 chips"),
        ({"type": "v5p-8"}, "v5p-8 is one host, take a type of more hosts"),
        ({"type": "v5litepod-8"}, "two hosts of four chips, .* one host of eight is type: ct5lp-hightpu-8t"),
        ({"queue": None}, "outside of all quota"),
        (
            {"wait": False, "limits": {"workload_s": 60}},
            "wait: false: what is made stays .* for 1.01 d at most",
        ),
        ({"pathways": {**PATHWAYS, "server_image": "s"}}, "s may be another tomorrow"),
        (
            {"sidecar": {"name": "x", "image": "i"}, "host_network": False},
            "at its own port whether it is up, .* without TLS",
        ),
        ({"cluster": CLUSTER}, "if c is made, its accelerators are spot"),
        ({"cluster": CLUSTER, **CPUS}, "if c is made, its machines are spot"),
    ],
)
def test_what_is_to_be_known_is_told(target: dict[str, Any], words: str) -> None:
    told = [str(each) for each in planned(target).warnings]
    assert len([each for each in told if re.search(words, each)]) == 1


@pytest.mark.parametrize(
    "target",
    [
        {"cluster": {**CLUSTER, "capacity": "spot"}},
        {"cluster": {**CLUSTER, "create": "never"}},
        {"cluster": CLUSTER, "type": "cpu", "slices": 1},
    ],
)
def test_of_what_is_said_or_not_made_it_is_not_told_how_it_is_paid_for(target: dict[str, Any]) -> None:
    assert not [each for each in planned(target).warnings if "spot" in str(each)]


def test_what_is_left_on_machines_made_for_it_waits_as_briefly_as_what_is_followed() -> None:
    left: dict[str, Any] = {"wait": False, "limits": {"workload_s": 60}}
    made = {"context": None, "cluster": CLUSTER}
    assert planned({**left, **made}).left_alone_s == 900 + 60 + 30 + 600
    assert planned({**left, **made, "limits": {"workload_s": 60, "queue_s": 99}}).left_alone_s is None
    assert planned({**left, "context": None, "cluster": {**CLUSTER, "create": "never"}}).left_alone_s is None
    assert planned(left).left_alone_s is None
    told = [str(one) for one in planned({**left, **made}).warnings if "wait: false" in str(one)]
    assert told[0].endswith("for 1.01 d at most (26.5 min on machines that are made for it alone)")


@pytest.mark.parametrize(
    ("target", "left_s"),
    [
        ({}, None),
        ({"limits": {"workload_s": 60}}, None),
        ({"wait": False, "limits": {"workload_s": 60}}, 24 * 3600 + 60 + 30 + 600),
        ({"wait": False, "limits": {"workload_s": 60, "queue_s": 10, "termination_grace_s": 5}}, 675),
        ({"wait": False, "queue": None, "max_restarts": 2, "limits": {"workload_s": 60}}, 3 * 60 + 630),
    ],
)
def test_what_is_left_to_itself_has_time_for_its_turn_its_work_and_its_end(
    target: dict[str, Any], left_s: float | None
) -> None:
    plan = planned(target)
    assert plan.left_s == left_s
    dead_man = next(ref.dead_man for ref in plan.resources if ref.kind == "jobset")
    assert ("when nobody renews" in dead_man) == (left_s is None)


@pytest.mark.parametrize(
    ("target", "fields", "words"),
    [
        ({}, {"output": "/tmp/runs"}, "would be in pods, and go with them"),
        ({"workload_name": "a" * 44}, {}, "at most 43 are allowed"),
        ({"workload_name": "1-mine"}, {}, "cannot be the name of a JobSet"),
        ({}, {"points": [point(devices=3)]}, "takes 3 devices, the target has 32"),
        (
            {"type": "cpu", "nodes": 2, "slices": 1},
            {"points": [point(devices=3)]},
            "2 workers of cpu cannot share",
        ),
        (
            {"pathways": {**PATHWAYS, "headless": True}, "limits": {"workload_s": 60}},
            {},
            "a headless Pathways runs no program",
        ),
        ({"pathways": PATHWAYS}, {"source": SourceSpec(jax_version="0.9.0")}, "and the program JAX 0.9.0"),
    ],
)
def test_what_cannot_run_is_refused(target: dict[str, Any], fields: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        planned(target, **fields)


def test_long_names_of_runs_become_names_of_jobsets() -> None:
    plan = planned({"slices": 20}, run_id="nightly-of-everything-20261129-010203-ab12-and-more")
    name = plan.resources[0].name
    assert len(name) <= 42 and name.startswith("sb-nightly-of-everything")


def test_an_output_on_this_machine_must_be_one_that_pods_share() -> None:
    shared = {"shared": {"directory": "/data/runs", "claim": "runs"}, "context": "c"}
    assert planned(shared, output="/data/runs/mine").output == "/data/runs/mine"
    with pytest.raises(BadInput, match="/data/runs-of-others would be in pods") as refused:
        planned(shared, output="/data/runs-of-others")
    assert refused.value.problems[0].fix == "give --output gs://BUCKET/FOLDER, or a folder in /data/runs"
