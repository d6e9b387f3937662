"""Whoever goes down waits for what runs, also while the server is too busy to answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from flows.api import FlowRunState, PrefectApi
from flows.serving.drain import drain
from flows.serving.settings import POOLS
from runtime.contract.errors import InfrastructureError


class Api:
    """A server that answers with what it is told to, one answer a look; an error is raised."""

    def __init__(self, *answers: list[str] | Exception) -> None:
        self.answers = list(answers)
        self.paused: list[str] = []
        self.cancelled: list[str] = []

    def pause_pool(self, pool: str) -> None:
        self.paused.append(pool)

    def going(self) -> list[FlowRunState]:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return [FlowRunState(name, name, "RUNNING", "") for name in answer]

    def cancel(self, flow_run: str) -> None:
        self.cancelled.append(flow_run)


BUSY = InfrastructureError("timed out")


def drained(api: Api, urgency: int = 0, look: Callable[[], None] = lambda: None) -> list[str]:
    said: list[str] = []
    drain(cast(PrefectApi, cast(Any, api)), look, lambda: urgency, said.append, sleep=lambda seconds: None)
    return said


def test_it_waits_for_what_runs_and_takes_no_more() -> None:
    api = Api(["one"], ["one"], [])
    assert len(drained(api)) == 1, "said once, not at every look"
    assert api.paused == list(POOLS) and api.answers == [] and api.cancelled == []


def test_a_server_that_is_busy_is_asked_again() -> None:
    api = Api(["one"], BUSY, ["one"], BUSY, [])
    drained(api)
    assert api.answers == [], "it gave up while something ran"
    assert api.paused == list(POOLS)


def test_a_server_that_does_not_stay_up_is_not_waited_for() -> None:
    def stays_down() -> None:
        raise InfrastructureError("server has ended 6 times")

    with pytest.raises(InfrastructureError, match="6 times"):
        drained(Api(), look=stays_down)


def test_cancelling_asks_each_run_once_and_waits() -> None:
    api = Api(["one"], BUSY, ["one", "two"], [])
    assert drained(api, 1) == [
        "cancelling one",
        "the server does not answer and is asked again: timed out",
        "cancelling two",
    ]
    assert api.cancelled == ["one", "two"]


@pytest.mark.parametrize("answer", [["one"], BUSY])
def test_whoever_insists_does_not_wait(answer: list[str] | Exception) -> None:
    [told] = drained(Api(answer), 2)
    assert "the reaper gives back" in told
