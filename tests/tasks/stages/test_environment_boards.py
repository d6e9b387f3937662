"""TensorBoards, whose names are nobody's own: just one is made, and it goes, however it is called; and lost labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tasks.cloud.container_errors import Unavailable
from tasks.cloud.google_rest import Rest
from tasks.leases import environments as kinds
from tasks.leases.claim import claim
from tasks.leases.holding import Holding
from tasks.stages.environment_desk import Desk, carry_out, settle
from tasks.stages.environment_plan import plan
from tasks.targets.environment_wanted import Wanted, wanted
from tests.cloud.container.hurried import QUICK
from tests.cloud.container.leasing import a_ledger
from tests.cloud.container.running import Gke
from tests.cloud.project.leasing import desk, environment, inventories

BOARDS = "v1/projects/proj/locations/us-east5/tensorboards"


def boards(project: Gke) -> list[str]:
    found = project.store.read()["project"]["tensorboards"]
    return sorted(one["displayName"] for one in found.values())


def of_kind(kind: str) -> Wanted:
    return next(one for one in wanted(environment(), "proj") if one.kind == kind)


@pytest.fixture
def at(project: Gke) -> Desk:
    return patient(0.2)


def patient(late_s: float) -> Desk:
    """Returns a desk that looks for so long for what may show late."""
    slow = replace(inventories(a_ledger())[kinds.TENSORBOARD], settle_s=late_s)  # type: ignore[type-var]
    return desk(inventories={**inventories(a_ledger()), kinds.TENSORBOARD: slow})


@pytest.fixture
def held(at: Desk) -> Iterator[Holding]:
    holding = claim(at.ledger, at.inventories, "environment-mine_proj", None)
    holding.stand(None)
    yield holding


def do(at: Desk, holding: Holding, kind: str = "tensorboard") -> str:
    """Does what is to be done about it; returns what that was."""
    step = at.step(environment(), of_kind(kind))
    carry_out(at, holding, step)
    return f"{step}{''.join(f' [{one.path}]' for one in step.differences)}"


def is_gone(project: Gke, holding: Holding) -> bool:
    done = holding.release("test")
    return done.lease.state == "gone" and boards(project) == []


def test_a_reply_that_is_lost_makes_no_second_one(project: Gke, held: Holding) -> None:
    project.set(boards_listed_after_s=0.3)
    project.fault("CreateTensorboard", "lose_reply")
    do(patient(30.0), held)
    assert len(project.requests("CreateTensorboard")) == 1
    assert is_gone(project, held)


def test_what_a_service_says_that_it_did_not_do_is_asked_again(project: Gke, at: Desk, held: Holding) -> None:
    project.fault("CreateTensorboard", "error", code="UNAVAILABLE")
    do(at, held)
    assert [one["outcome"] for one in project.requests("CreateTensorboard")] == ["UNAVAILABLE", "OK"]
    assert is_gone(project, held)


def test_what_nobody_answered_and_nobody_sees_is_not_made_again_and_goes(
    project: Gke, at: Desk, held: Holding
) -> None:
    project.set(boards_listed_after_s=3600.0)
    project.fault("CreateTensorboard", "lose_reply")
    with pytest.raises(Unavailable, match="whether tensorboard mine was made is not known"):
        do(at, held)
    assert len(project.requests("CreateTensorboard")) == 1
    project.set(boards_listed_after_s=0.0)
    settle(at, held)
    assert do(at, held) == "keep tensorboard mine"
    assert is_gone(project, held)


def test_one_of_a_hand_that_died_just_after_the_call_is_found_by_whoever_comes_next(
    project: Gke, at: Desk, held: Holding
) -> None:
    board = of_kind("tensorboard")

    def dies() -> str:
        at.sort(board).make(board.scope, board.name, board.fields, held.resource_labels)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        held.create(kinds.TENSORBOARD, board.scope, board.name, dies)
    assert at.inventories[kinds.TENSORBOARD].get(held.lease.resources[0]) is not None  # as the reaper looks
    settle(at, held)
    assert do(at, held) == "keep tensorboard mine"
    assert is_gone(project, held)


def test_of_two_leases_that_died_so_nothing_is_taken_for_the_others(
    project: Gke, at: Desk, held: Holding
) -> None:
    board = of_kind("tensorboard")
    other = claim(at.ledger, at.inventories, "environment-other_proj", None)
    for holding in (held, other):
        with pytest.raises(KeyboardInterrupt):
            holding.create(kinds.TENSORBOARD, board.scope, board.name, _interrupted)
    at.sort(board).make(board.scope, board.name, board.fields, other.resource_labels)
    with pytest.raises(Exception, match="were both about to make tensorboard mine"):
        at.inventories[kinds.TENSORBOARD].get(held.lease.resources[0])
    other.forget(other.lease.resources[0])
    assert at.inventories[kinds.TENSORBOARD].get(held.lease.resources[0]) is None
    assert boards(project) == ["mine"]


def _interrupted() -> str:
    raise KeyboardInterrupt


def change(project: Gke, kind: str = "tensorboards", **fields: Any) -> None:
    with project.store.changing() as state:
        for one in state["project"][kind].values():
            one.update(fields)


def test_one_that_is_called_otherwise_by_hand_gets_its_name_again(
    project: Gke, at: Desk, held: Holding
) -> None:
    do(at, held)
    change(project, displayName="other")
    assert do(at, held) == "change tensorboard mine [displayName]"
    assert (boards(project), do(at, held)) == (["mine"], "keep tensorboard mine")
    change(project, displayName="other")
    assert is_gone(project, held)


def test_what_lost_its_labels_by_hand_is_known_by_the_record_and_labelled_again(
    project: Gke, at: Desk, held: Holding
) -> None:
    parts = {"tensorboard": "tensorboards", "bucket": "buckets", "repository": "repositories"}
    for kind, part in parts.items():
        do(at, held, kind)
        change(project, part, labels={"team": "a"})
        lost = do(at, held, kind)
        assert lost.endswith("[labels.slicebench-lease] [labels.slicebench-ledger]")
        assert do(at, held, kind) == f"keep {of_kind(kind)}"
        [labels] = [one["labels"] for one in project.store.read()["project"][part].values()]
        assert labels["team"] == "a"
        change(project, part, labels={})
    assert held.release("test").lease.state == "gone"
    assert [project.store.read()["project"][part] for part in parts.values()] == [{}, {}, {}]


def test_what_says_in_its_description_whose_it_is_says_so_again(
    project: Gke, at: Desk, held: Holding
) -> None:
    """Where the API changes none, the record alone knows, and a plan says so."""
    do(at, held, "network")
    parts = {"router": "routers", "firewall": "firewalls", "service account": "accounts"}
    for kind, part in parts.items():
        do(at, held, kind)
        [before] = [one["description"] for one in project.store.read()["project"][part].values()]
        change(project, part, description="a note")
        step = at.step(environment(), of_kind(kind))
        [lost] = step.differences
        told = '"a note" → "made by slicebench: slicebench-lease=environment-mine_proj-e1 slicebench-ledger='
        assert str(lost).startswith(f"description: {told}")
        assert do(at, held, kind) == f"change {of_kind(kind)} [description]"
        assert [one["description"] for one in project.store.read()["project"][part].values()] == [before]
        assert do(at, held, kind) == f"keep {of_kind(kind)}"
    change(project, "networks", description="a note")
    assert do(at, held, "network") == "keep network net"
    assert "network net does not say any more whose it is ('a note')" in str(plan(at, environment()).beside)


def test_somebody_elses_of_the_same_name_is_used_and_stays(project: Gke, at: Desk, held: Holding) -> None:
    Rest("us-east5-aiplatform.googleapis.com", timing=QUICK).send(
        "POST", "make it", BOARDS, {"displayName": "mine"}
    )
    assert do(at, held) == "use tensorboard mine"
    assert not is_gone(project, held)
    assert boards(project) == ["mine"]
