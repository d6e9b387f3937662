"""How far an attempt came and how long recovering took, by events and a clock that the test moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from runtime.contract.disruption import Disruption, Restart
from runtime.contract.progress import Init, Step, StepState
from runtime.contract.results import Sample
from tasks.history.samples import schema
from tasks.stages.attempts import Started
from tasks.stages.recovery import Hearing, goes_on, recovery_samples, write_recovery
from tasks.targets.types import PREEMPTED, LogLine, Progress, State, WorkloadRef
from tests.tasks.targets.local_runs import make_run, spec


class Told:
    """An attempt of two workers that is listened to."""

    def __init__(self, restart: Restart | None = None, taken_at: float | None = None) -> None:
        self.now = 100.0
        self.hearing = Hearing(restart, 2, taken_at, lambda: self.now)
        self.hearing.started()

    def state(self, *states: str) -> None:
        for state in states:
            self.now += 1.0
            self.hearing.hear(State(state))

    def joins(self, *workers: int) -> None:
        for worker in workers:
            self.now += 1.0
            self.hearing.hear(LogLine(worker, 1, "", Init("end")))

    def steps(self, worker: int, state: StepState, *steps: int, point: int = 0, repeat: int = 0) -> None:
        for step in steps:
            self.hearing.hear(LogLine(worker, 1, "", Step(state, point, 2, repeat, step)))

    def begins(self, point: int) -> None:
        self.hearing.hear(Progress(0, 1, point, 2, "b", 0, "", "begin"))


def test_where_the_next_goes_on_is_what_all_have_complete_and_what_any_has_begun() -> None:
    told = Told()
    assert told.hearing.reached() is None
    told.steps(0, "trained", 0, 1, 2)
    told.steps(0, "saved", 0)
    assert told.hearing.reached() == Restart(0, None, 2, point=0)
    told.steps(1, "saved", 0, 5)
    assert told.hearing.reached() == Restart(0, 0, 5, point=0)
    told.steps(1, "trained", 7)
    told.steps(0, "saved", 5)
    assert told.hearing.reached() == Restart(0, 5, 7, point=0)
    told.steps(0, "trained", 1, repeat=1)
    assert told.hearing.reached() == Restart(1, None, 1, point=0)


def test_one_that_came_no_further_leaves_it_where_it_was() -> None:
    left = Restart(0, 5, 7, point=1)
    told = Told(left, 90.0)
    told.joins(0, 1)
    assert told.hearing.reached() == left
    told.steps(0, "resumed", 5, point=1)
    told.steps(1, "resumed", 5, point=1)
    assert told.hearing.reached() == Restart(0, 5, 5, point=1)


def test_recovery_is_the_turn_in_the_queue_and_the_start() -> None:
    told = Told(Restart(0, 5, 7, point=0), taken_at=90.0)
    told.state("queued", "queued", "unreachable", "starting", "running")  # has its turn at 104
    told.joins(0, 1)  # at 106 and 107
    told.begins(0)
    told.steps(0, "resumed", 5)
    told.steps(1, "resumed", 5)
    assert told.hearing.recovery() == {
        "point": 0, "repeat": 0, "queue_s": 14.0, "start_s": {"0": 2.0, "1": 3.0},
    }  # fmt: skip


def test_without_a_queue_the_turn_is_when_the_workload_is_handed_over() -> None:
    told = Told(Restart(0, 5, 7, point=0), taken_at=90.0)
    told.state("starting", "running")
    told.joins(0)
    told.steps(0, "resumed", 5)
    assert told.hearing.recovery() == {"point": 0, "repeat": 0, "queue_s": 10.0, "start_s": {"0": 3.0}}


@pytest.mark.parametrize(
    "why", ["not taken away", "begins anew", "never joined", "another point came before"]
)
def test_what_is_no_recovery_is_not_timed(why: str) -> None:
    told = Told(Restart(0, 5, 7, point=1), None if why == "not taken away" else 90.0)
    if why != "never joined":
        told.joins(0)
    if why == "another point came before":
        told.begins(0)
    told.begins(1)
    if why != "begins anew":
        told.steps(0, "resumed", 5, point=1)
    told.begins(0)  # what comes later does not matter
    assert told.hearing.recovery() is None


def test_when_it_was_taken_away_is_heard_once() -> None:
    told = Told()
    told.state("running")
    assert told.hearing.taken_at is None
    told.state(PREEMPTED, PREEMPTED)
    assert told.hearing.taken_at == 102.0


REACHED = Restart(0, 5, 7, point=0)


@pytest.mark.parametrize(
    ("last", "points", "expected"),
    [
        (Started(1, end="preempted", reached=REACHED), (0, 1), REACHED),
        (Started(1, end="lost", reached=REACHED), (0,), REACHED),
        (Started(1, end="interrupted", reached=REACHED), (0,), REACHED),
        (Started(1, end="failed", reached=REACHED), (0, 1), None),
        (Started(1, end="preempted", reached=REACHED), (1,), None),
        (Started(1, end="preempted", reached=REACHED, counts=False), (0, 1), None),
        (Started(1, end="preempted"), (0, 1), None),
        (Started(1, WorkloadRef("ssh", "", "", "", 1, output="/there"), "lost", reached=REACHED), (0,), None),
    ],
)
def test_only_what_was_stopped_from_outside_goes_on_and_where_its_checkpoints_are(
    tmp_path: Path, last: Started, points: Sequence[int], expected: Restart | None
) -> None:
    run = make_run(spec(tmp_path))
    assert goes_on(run, [], points) is None
    assert goes_on(run, [last], points) == expected
    disrupted = [replace(one, disruption=Disruption(at_step=2)) for one in run.spec.points]
    run.spec.__dict__["points"] = disrupted
    assert goes_on(run, [last], points) is None, "its suite stops it by itself"


def test_the_workers_own_times_make_it_whole(tmp_path: Path) -> None:
    import pyarrow as pa

    run = make_run(spec(tmp_path))
    write_recovery(run, 2, {"point": 1, "repeat": 0, "queue_s": 4.0, "start_s": {"0": 2.0, "1": 3.0}})
    write_recovery(run, 3, None)

    def sample(worker: int, metric: str, value: float) -> dict[str, object]:
        return vars(
            Sample(
                run_id="r", attempt=2, point=1, benchmark="b", benchmark_key="k", repeat=0, occurrence=0,
                worker=worker, operation="recovery", metric=metric, value=value, unit="s", warmup=False,
                started_at=1.0,
            )
        )  # fmt: skip

    own = {"setup_s": 0.5, "restore_s": 0.25, "first_step_s": 0.25}
    rows = [sample(0, name, value) for name, value in own.items()] + [sample(1, "setup_s", 0.5)]
    table = pa.Table.from_pylist(rows, schema=schema())
    [made] = recovery_samples(run, [Started(1), Started(2), Started(3)], table)
    told = {(row["worker"], row["metric"]): row["value"] for row in made.to_pylist()}
    assert told == {(0, "time_s"): 7.0, (0, "queue_s"): 4.0, (0, "start_s"): 2.0}
    (run_folder := Path(run.folder.uri) / "results/recovery-a2.json").write_text("{")
    assert run_folder.exists()
    assert recovery_samples(run, [Started(2)], table) == []
