"""From what is there to what is wanted: which pools are made, kept, replaced and given up, and in which order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tasks.cloud.container_model import Cluster, Pool
from tasks.targets.cluster_plan import ClusterPlan, plan
from tests.cloud.container.leasing import config


def pool(name: str, state: str = "RUNNING", **fields: Any) -> Pool:
    about = {"machine_type": "ct5lp-hightpu-4t", "size": 4, "topology": "4x4", **fields}
    return Pool("proj", "us-east5", "x", name, name, state, **about)


CPU = pool("cpu", machine_type="e2-standard-16", topology="", size=1)


def planned(
    pools: Sequence[Pool],
    busy: Mapping[str, bool] | None = None,
    state: str = "RUNNING",
    ours: bool = True,
    **fields: Any,
) -> ClusterPlan:
    there = Cluster("proj", "us-east5", "x", "u", state, pools=pools)
    mine = lambda one: not one.name.startswith("theirs")  # noqa: E731
    return plan("x", config(**fields), there, mine, busy, ours=ours)


def steps(found: ClusterPlan) -> list[str]:
    return [f"{step.do} {step.name}" for step in found.steps]


def test_a_new_one_is_made_pool_by_pool() -> None:
    found = plan("x", config(slices=2), None, lambda one: True)
    assert steps(found) == ["make cluster x", "make pool np-0", "make pool np-1"]
    assert not found.disturbs
    assert steps(plan("x", config(type=None), None, lambda one: True)) == ["make cluster x"]
    gpus = plan("x", config(type="l4-1", nodes=3, zone="us-central1-a"), None, lambda one: True)
    assert steps(gpus) == ["make cluster x", "make pool np-0"]


def test_one_that_is_as_wanted_is_left_alone() -> None:
    found = planned([CPU, pool("np-0"), pool("np-1")], slices=2)
    assert (found.steps, found.kept) == ((), ("np-0", "np-1"))
    assert str(found) == "nothing to do: 2 slices there"


def test_4_8_6_4_keeps_what_is_used_and_fills_the_gaps() -> None:
    four = [CPU, *(pool(f"np-{index}") for index in range(4))]
    grown = planned(four, slices=8)
    assert steps(grown) == [f"make pool np-{index}" for index in range(4, 8)]
    assert (grown.disturbs, str(grown).splitlines()[0]) == (False, "4 slices → 8, on_demand")
    eight = [CPU, *(pool(f"np-{index}") for index in range(8))]
    busy = {f"np-{index}": index not in (1, 3) for index in range(8)}
    shrunk = planned(eight, busy, slices=6)
    assert steps(shrunk) == ["remove pool np-1", "remove pool np-3"]
    assert shrunk.disturbs
    assert "idle" in shrunk.steps[0].why
    assert steps(planned(eight, slices=6)) == ["remove pool np-6", "remove pool np-7"]
    gaps = [CPU, *(pool(f"np-{index}") for index in (0, 2, 4))]
    assert steps(planned(gaps, slices=5)) == ["make pool np-1", "make pool np-3"]


@pytest.mark.parametrize("state", ["ERROR", "RUNNING_WITH_ERROR"])
def test_a_pool_in_error_is_no_pool(state: str) -> None:
    pools = [CPU, pool("np-0"), pool("np-1", state, why="no room")]
    found = planned(pools, slices=2)
    assert steps(found) == ["replace pool np-1"]
    assert found.steps[0].why == f"{state}: no room"
    assert found.disturbs is (state != "ERROR")
    # It is no slice of those that there are to be, and goes first.
    assert steps(planned(pools, slices=1)) == ["remove pool np-1"]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"type": "v5litepod-32"}, "it is of 4x4, not 4x8"),
        ({"type": "v6e-16"}, "it is of ct5lp-hightpu-4t, not ct6e-standard-4t"),
        ({"capacity": "spot"}, "it is on_demand, not spot"),
    ],
)
def test_what_is_of_another_kind_is_replaced(fields: dict[str, Any], why: str) -> None:
    found = planned([CPU, pool("np-0")], **fields)
    assert (found.before, found.kept) == (1, ())  # one is there, and works
    assert (steps(found), found.steps[0].why, found.disturbs) == (["replace pool np-0"], why, True)


def test_any_reservation_of_several_will_do() -> None:
    there = pool("np-0", capacity="reservation", reservation="b")
    assert planned([CPU, there], reservations=["a", "b"]).steps == ()
    assert steps(planned([CPU, there], reservations=["a"])) == ["replace pool np-0"]


def test_slices_are_given_back_and_the_rest_kept() -> None:
    assert steps(planned([CPU, pool("np-0"), pool("np-1")], slices=0)) == [
        "remove pool np-0",
        "remove pool np-1",
    ]
    assert steps(planned([CPU, pool("np-0")], type=None)) == ["remove pool np-0"]


def test_what_is_being_made_is_waited_for_and_what_is_going_is_made_anew() -> None:
    pools = [CPU, pool("np-0", "PROVISIONING"), pool("np-1", "STOPPING")]
    assert steps(planned(pools, slices=2)) == ["wait for np-0", "make pool np-1"]
    assert steps(planned([CPU], state="PROVISIONING", slices=1)) == ["wait for x", "make pool np-0"]


def test_a_cluster_in_error_is_made_anew_if_it_is_ours() -> None:
    assert steps(planned([CPU], state="ERROR")) == ["replace cluster x", "make pool np-0"]
    assert steps(planned([], state="ERROR", ours=False)) == ["make pool np-0"]


def test_the_cpu_machines_are_repaired() -> None:
    assert steps(planned([pool("cpu", "ERROR"), pool("np-0")])) == ["replace pool cpu"]
    assert steps(planned([pool("np-0")])) == ["make pool cpu"]
    assert steps(planned([pool("np-0")], ours=False)) == []


def test_pools_of_others_are_left_alone() -> None:
    assert steps(planned([CPU, pool("theirs-0"), pool("theirs-1")], slices=1)) == ["make pool np-0"]


def test_gpus_are_one_pool_of_a_size() -> None:
    gpus = pool("np-0", machine_type="g2-standard-12", topology="", size=2, accelerator="nvidia-l4")
    fields = {"type": "l4-1", "zone": "us-central1-a"}
    grown = planned([CPU, gpus], nodes=3, **fields)
    assert (steps(grown), grown.disturbs, str(grown).splitlines()[0]) == (
        ["resize pool np-0"],
        False,
        "2 machines → 3, on_demand",
    )
    assert planned([CPU, gpus], nodes=1, **fields).disturbs
    assert steps(planned([CPU, gpus], nodes=0, **fields)) == ["remove pool np-0"]
    assert steps(planned([CPU, gpus], type="l4-2", nodes=2, zone="us-central1-a")) == ["replace pool np-0"]
