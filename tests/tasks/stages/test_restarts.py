"""Which attempts are followed by another: failures by the limit for failures, preemptions by the one for those."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from runtime.contract.errors import ExitCode
from tasks.config.home import scratch_folder
from tasks.config.spec import RunSpec
from tasks.leases.holding import Holding
from tasks.stages.following import code_of
from tasks.stages.provision import provision
from tasks.stages.run import exit_code_of, run_workload
from tasks.stages.teardown import teardown
from tasks.stages.upload import upload
from tasks.targets.local import LocalTarget
from tasks.targets.streams import LOST
from tasks.targets.types import PREEMPTED, Event, Exited, Plan, Restarts, State, Uploaded, WorkloadRef
from tests.tasks.targets.local_runs import IMAGE, hold, make_run, spec, standin

TAKEN = "taken"
ANY = None


class Scripted(LocalTarget):
    """This machine, where attempts end as they are told: by an exit code, or taken away."""

    def __init__(self, run_spec: RunSpec, ends: Sequence[int | str], limit: int, restarts: Restarts) -> None:
        super().__init__(run_spec.target, scratch_folder(), supervisor=standin)
        self.ends, self.limit, self.restarts = ends, limit, restarts
        self.stopped: list[int] = []

    def plan(self, spec: RunSpec) -> Plan:
        return replace(super().plan(spec), attempts=self.limit, restarts=self.restarts)

    def start(self, uploaded: Uploaded, attempt: int, lease: Holding) -> WorkloadRef:
        return WorkloadRef("local", "", f"w{attempt}", f"w{attempt}", attempt)

    def renew(self, ref: WorkloadRef) -> None:
        return

    def follow(self, ref: WorkloadRef, since: Mapping[int, int]) -> Iterator[Event]:
        end = self.ends[ref.attempt - 1]
        if end == TAKEN:
            yield State(PREEMPTED, "it was needed")
        yield Exited(0, LOST if isinstance(end, str) else end, "" if end == 0 else "why")

    def fetch(self, ref: WorkloadRef, into: object) -> list[object]:  # type: ignore[override]
        return []

    def stop(self, ref: WorkloadRef, grace_s: float) -> None:
        self.stopped.append(ref.attempt)


def attempts(
    folder: Path, ends: Sequence[int | str], limit: int, restarts: Restarts, said: list[str]
) -> tuple[list[str], ExitCode, list[int]]:
    run_spec = spec(folder)
    target = Scripted(run_spec, ends, limit, restarts)
    run = replace(make_run(run_spec, said), target=target)
    holding = hold(run)
    outcome = run_workload(run, upload(run, provision(run, holding), IMAGE), holding)
    teardown(run, holding)
    return [one.end for one in outcome.attempts], exit_code_of(outcome), target.stopped


@pytest.mark.parametrize(
    ("ends", "limit", "restarts", "expected"),
    [
        ([1], 3, Restarts(), "failed"),
        ([1, 0], 3, Restarts(2, ANY), "failed succeeded"),
        ([1, 1, 1], 3, Restarts(2, ANY), "failed failed failed"),
        ([1], 3, Restarts(2, frozenset({3})), "failed"),
        ([3, 0], 3, Restarts(2, frozenset({3})), "lost succeeded"),
        ([LOST, 0], 3, Restarts(2, frozenset({137})), "lost succeeded"),
        ([TAKEN, 1, 1, 0], 2, Restarts(2, ANY), "preempted failed failed succeeded"),
        ([1, TAKEN, 1, 0], 2, Restarts(2, ANY), "failed preempted failed succeeded"),
        ([TAKEN, TAKEN], 2, Restarts(2, ANY), "preempted preempted"),
        ([1, TAKEN, TAKEN], 2, Restarts(2, ANY), "failed preempted preempted"),
        ([130], 3, Restarts(2, ANY), "interrupted"),
        ([0], 3, Restarts(2, ANY), "succeeded"),
    ],
)
def test_failures_and_preemptions_count_apart(
    tmp_path: Path, ends: Sequence[int | str], limit: int, restarts: Restarts, expected: str
) -> None:
    said: list[str] = []
    found, code, stopped = attempts(tmp_path, ends, limit, restarts, said)
    assert " ".join(found) == expected
    assert (code == ExitCode.DONE) == (found[-1] == "succeeded")
    again = [number for number, end in enumerate(found[:-1], 1) if end in ("failed", "lost")]
    assert set(again) <= set(stopped), "none of its workers is still at it"
    assert sum("started again, " in line for line in said) == len(again)


def test_the_code_is_that_of_the_worker_by_which_it_ended() -> None:
    assert code_of({}) is None
    assert code_of({0: Exited(0, 0), 1: Exited(1, 1, "leaf a differs")}) == 1
    assert code_of({0: Exited(0, 1, "x"), 1: Exited(1, 3, "disk")}) == 3
    assert code_of({0: Exited(0, LOST, "killed"), 1: Exited(1, 130)}) == 130
    assert code_of({0: Exited(0, LOST, "killed"), 1: Exited(1, LOST, "killed")}) == 137
