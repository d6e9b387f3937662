"""Hardware that is taken away under a workload: a new attempt on new hardware, within the limit, and no failure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from runtime.contract.errors import ExitCode
from tasks.config.home import scratch_folder
from tasks.config.spec import RunSpec
from tasks.leases.holding import Holding
from tasks.stages.context import Run
from tasks.stages.provision import provision
from tasks.stages.run import exit_code_of, outcome_of, run_workload
from tasks.stages.teardown import teardown
from tasks.stages.upload import upload
from tasks.targets.local import LocalTarget
from tasks.targets.types import PREEMPTED, Event, Plan, State, Workers, WorkloadRef
from tests.tasks.targets.local_runs import IMAGE, hold, make_run, spec, standin


class Fickle(LocalTarget):
    """This machine, taken away under the first `times` attempts as soon as somebody looks; a workload that waits is let
    go in those after them, so that none is through before."""

    def __init__(self, run_spec: RunSpec, times: int, limit: int) -> None:
        super().__init__(run_spec.target, scratch_folder(), supervisor=standin)
        self.times, self.limit = times, limit
        self.acquired: list[str] = []
        self.stopped: list[int] = []

    def plan(self, spec: RunSpec) -> Plan:
        return replace(super().plan(spec), attempts=self.limit)

    def acquire(self, plan: Plan, lease: Holding) -> Workers:
        self.acquired.append(lease.lease.lease_id)
        return super().acquire(plan, lease)

    def follow(self, ref: WorkloadRef, since: Mapping[int, int]) -> Iterator[Event]:
        if ref.attempt <= self.times:
            super().stop(ref, 0.0)
            yield State(PREEMPTED, "spot capacity was needed", "node n is PREEMPTED")
        else:
            for scratch in map(Path, ref.scratch):
                scratch.mkdir(parents=True, exist_ok=True)
                (scratch / "go").touch()
        yield from super().follow(ref, since)

    def stop(self, ref: WorkloadRef, grace_s: float) -> None:
        self.stopped.append(ref.attempt)
        super().stop(ref, grace_s)


def played(
    tmp_path: Path, times: int, limit: int, said: list[str] | None = None
) -> tuple[Run, Fickle, Holding, Sequence[tuple[int, str]], ExitCode]:
    run_spec = spec(tmp_path, workload="wait")
    target = Fickle(run_spec, times, limit)
    run = replace(make_run(run_spec, said), target=target)
    holding = hold(run)
    uploaded = upload(run, provision(run, holding), IMAGE)
    outcome = run_workload(run, uploaded, holding)
    return run, target, holding, [(one.n, one.end) for one in outcome.attempts], exit_code_of(outcome)


@pytest.fixture
def said() -> list[str]:
    return []


def test_the_next_attempt_gets_new_hardware_under_the_same_lease(tmp_path: Path, said: list[str]) -> None:
    run, target, holding, attempts, code = played(tmp_path, times=2, limit=3, said=said)
    assert (attempts, code) == ([(1, "preempted"), (2, "preempted"), (3, "succeeded")], ExitCode.DONE)
    assert target.acquired == ["run-1-e1"] * 3
    assert target.stopped == [1, 2], "what was not taken away does not go on without the rest"
    assert any(
        "attempt 1 was preempted (spot capacity was needed; node n is PREEMPTED)" in line for line in said
    )
    ends = json.loads((tmp_path / "run-1" / "attempts.json").read_text())
    assert [(one["n"], one["end"]) for one in ends] == attempts
    assert outcome_of(run) is not None
    assert teardown(run, holding).left == ()


def test_the_limit_ends_it_and_a_later_call_may_try_again(tmp_path: Path) -> None:
    run, _, holding, attempts, code = played(tmp_path, times=3, limit=2)
    assert (attempts, code) == ([(1, "preempted"), (2, "preempted")], ExitCode.INFRASTRUCTURE)
    assert outcome_of(run) is None, "an unfinished stage"
    uploaded = upload(run, provision(run, holding), IMAGE)
    outcome = run_workload(run, uploaded, holding)
    assert [one.end for one in outcome.attempts] == ["preempted", "preempted", "preempted", "succeeded"]
    teardown(run, holding)


def test_a_workload_that_was_done_before_its_hardware_went_succeeded(tmp_path: Path) -> None:
    class Late(Fickle):
        def follow(self, ref: WorkloadRef, since: Mapping[int, int]) -> Iterator[Event]:
            yield from LocalTarget.follow(self, ref, since)
            yield State(PREEMPTED, "spot capacity was needed")

    run_spec = spec(tmp_path)
    run = replace(make_run(run_spec), target=Late(run_spec, 0, 3))
    holding = hold(run)
    outcome = run_workload(run, upload(run, provision(run, holding), IMAGE), holding)
    assert [one.end for one in outcome.attempts] == ["succeeded"]
    teardown(run, holding)


def test_a_failure_is_not_tried_again(tmp_path: Path) -> None:
    run_spec = spec(tmp_path, workload="fail")
    run = replace(make_run(run_spec), target=Fickle(run_spec, 0, 3))
    holding = hold(run)
    outcome = run_workload(run, upload(run, provision(run, holding), IMAGE), holding)
    assert [one.end for one in outcome.attempts] == ["failed"]
    teardown(run, holding)


def test_one_that_is_gone_on_with_and_then_taken_away_gets_new_hardware_too(tmp_path: Path) -> None:
    run_spec = spec(tmp_path, workload="wait")
    target = Fickle(run_spec, 1, 2)
    run = replace(make_run(run_spec), target=target)
    holding = hold(run)
    uploaded = upload(run, provision(run, holding), IMAGE)
    target.start(uploaded, 1, holding)
    (tmp_path / "run-1" / "attempts.json").write_text('[{"n": 1, "ref": null, "end": "", "cause": ""}]')
    outcome = run_workload(run, uploaded, holding)
    assert [one.end for one in outcome.attempts] == ["preempted", "succeeded"]
    assert len(target.acquired) == 2
    teardown(run, holding)
