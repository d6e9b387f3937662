"""How a run that a signal ends is told: cancelled on request, or ended by the signal alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from prefect.exceptions import TerminationSignal

from flows.ending import Ending, Interruption
from flows.states import IN_A_FLOW
from runtime.contract.errors import ExitCode
from tasks.targets.types import Attempt, Outcome
from tests.flows.prefect_stub import PrefectStub


@pytest.mark.parametrize(
    ("state", "told"), [("CANCELLING", "cancelled in Prefect"), ("RUNNING", "ended by a signal")]
)
def test_a_run_that_was_cancelled_says_so(
    server: PrefectStub, monkeypatch: pytest.MonkeyPatch, state: str, told: str
) -> None:
    monkeypatch.setenv("PREFECT__RUNTIME__FLOW_RUN__ID", "f1")
    server.flow_run = {"id": "f1", "name": "n", "parameters": {}}
    server.end(state)
    assert IN_A_FLOW.words(TerminationSignal(15)) == told


def test_without_the_server_the_signal_is_told(server: PrefectStub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT__RUNTIME__FLOW_RUN__ID", "f1")
    server.close()
    assert IN_A_FLOW.words(TerminationSignal(15)) == "ended by a signal"


def test_an_error_that_a_signal_caused_in_prefects_engine_is_the_signal() -> None:
    try:
        try:
            raise KeyboardInterrupt
        finally:
            raise ValueError("Task run is not set")
    except ValueError as error:
        assert (Interruption().code_of(error), Interruption().words(error)) == (
            ExitCode.INTERRUPTED,
            "interrupted",
        )
    bug = Interruption().words(ValueError("Task run is not set"))
    assert bug == "slicebench itself failed: ValueError: Task run is not set"


@pytest.mark.parametrize(
    ("end", "found"),
    [
        ("failed", [(ExitCode.WORKLOAD_FAILED, "B: wrong data")]),
        ("lost", [(ExitCode.INFRASTRUCTURE, "why"), (ExitCode.WORKLOAD_FAILED, "B: wrong data")]),
    ],
)
def test_a_benchmark_that_failed_hides_no_other_end_of_its_workload(
    end: str, found: list[tuple[ExitCode, str]]
) -> None:
    point = SimpleNamespace(benchmark="B", cause="wrong data", status="failed")
    results: Any = SimpleNamespace(points=[point], troubles=[])
    run: Any = None
    ending = Ending(run, outcome=Outcome([Attempt(1, end, "why")], ""), results=results)
    assert list(ending._found()) == found
