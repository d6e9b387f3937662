"""Environments as a flow: up and down within a time limit, and told as such."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from flows import environment as flows
from flows.environment import TimeIsUp, give_back, make, within
from runtime.contract.errors import BadInput, InfrastructureError
from tasks.stages.environment import Done

FILE = "minimal"


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Notes what is done in place of doing it."""
    done: list[str] = []
    stays = ["cluster c: description"]
    monkeypatch.setattr(flows, "opened", lambda config, *more, **named: config)
    monkeypatch.setattr(flows, "bootstrap", lambda desk, config: done.append("bootstrap"))
    monkeypatch.setattr(
        flows,
        "up",
        lambda desk, config, agree, wait_s: (
            done.append(f"up {config.tpu_pools} {wait_s:.0f}") or Done([], [], [], stays)
        ),
    )
    monkeypatch.setattr(
        flows, "down", lambda desk, config, bucket, wait_s: done.append(f"down {bucket} {wait_s:.0f}") or []
    )
    monkeypatch.setattr(flows, "bucket_left", lambda desk, config: "" if "down True 1800" in done else "b")
    yield done


def test_it_is_made_with_what_is_said_in_place_of_the_file_and_given_back(
    prefect: None, played: list[str]
) -> None:
    state: Any = make(FILE, set=["tpu_pools=3"], return_state=True)
    assert (state.is_completed(), played) == (True, ["bootstrap", "up 3 0"])
    but = "but for what cannot be changed on what is there: cluster c: description"
    assert str(state.message) == f"environment tpu-cluster is as {FILE} says, {but}"
    state = give_back(FILE, return_state=True)
    assert str(state.message) == "environment tpu-cluster is gone: nothing is left but bucket b"
    state = give_back(FILE, bucket=True, wait="30m", return_state=True)
    assert str(state.message) == "environment tpu-cluster is gone: nothing is left"
    assert played[-1] == "down True 1800"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ({"file": "nosuch"}, "BAD_INPUT: there is no environment 'nosuch'"),
        ({"file": FILE, "limit": "soon"}, "BAD_INPUT: limit: 'soon' is no time"),
        ({"file": FILE, "wait": "soon"}, "BAD_INPUT: wait: 'soon' is no time"),
        (
            {"file": FILE, "set": ["zone=us-east5-b"]},
            "BAD_INPUT: --set zone=us-east5-b: zone: us-east5-b is not in",
        ),
    ],
)
def test_what_is_wrong_fails_the_flow_run_with_why(
    prefect: None, played: list[str], words: dict[str, Any], told: str
) -> None:
    state: Any = make(**words, return_state=True)
    assert state.is_failed() and str(state.message).startswith(told)
    assert played == []


def test_it_ends_when_its_time_is_up(
    prefect: None, played: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flows, "up", lambda desk, config, agree, wait_s: time.sleep(600))
    monkeypatch.setattr(flows, "_seconds", lambda said, what: 0.2)
    state: Any = make(FILE, return_state=True)
    assert str(state.message).startswith(
        "INFRASTRUCTURE: it takes more than 2h: what was made is written down"
    )


def test_a_block_that_is_quicker_is_let_alone(tmp_path: Path) -> None:
    with within(60.0, "1m"):
        pass
    with pytest.raises(TimeIsUp), within(0.01, "no time"):
        time.sleep(60)


def test_who_looks_again_after_failures_does_not_take_the_end_for_one() -> None:
    with pytest.raises(TimeIsUp), within(0.01, "no time"):
        for _ in range(2):
            with suppress(InfrastructureError):
                time.sleep(3)


def test_a_limit_must_be_a_time() -> None:
    with pytest.raises(BadInput, match="write 90m, 2h or 1d"):
        flows._seconds("2 hours", "limit")
