"""A run whose workload failed goes on: what has not passed is measured again, what passed keeps its samples."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from runtime.contract.errors import ExitCode, InfrastructureError
from runtime.contract.names import samples_file
from tasks.history.results import Results
from tasks.stages.attempts import Started, go_on, read_attempts, start_over, write_attempts
from tasks.stages.collect import collect
from tasks.stages.context import Run
from tasks.stages.missing import missing_points
from tasks.stages.provision import provision
from tasks.stages.run import exit_code_of, run_workload, something_to_measure
from tasks.stages.teardown import teardown
from tasks.stages.upload import upload
from tasks.targets.types import Attempt, Outcome
from tests.tasks.targets.local_runs import IMAGE, hold, make_run, point, spec

POINTS = 3


def three_points(output: Path) -> Run:
    made = spec(output, points=[point(index) for index in range(POINTS)])
    return make_run(replace(made, env={"WORKLOAD": "measure", "POINTS": str(POINTS)}))


def break_point(run: Run, number: int, worker: int) -> Path:
    file = Path(run.folder.uri, f"broken-{number}-{worker}")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    return file


def one_pass(run: Run) -> tuple[Outcome, Results]:
    """Plays the stages that a flow would, with a lease of their own."""
    holding = hold(run)
    try:
        if run.marker("run") is None:
            run_workload(run, upload(run, provision(run, holding), IMAGE), holding)
        outcome = run_workload(run, None, holding)  # type: ignore[arg-type]  # finished: it only tells
        return outcome, collect(run)
    finally:
        teardown(run, holding)


def values(run: Run) -> set[tuple[int, int, float]]:
    """Returns (point, worker, value) of what counts: the stand-in's value is its attempt."""
    points = json.loads(Path(run.folder.uri, "points.json").read_text())["points"]
    counts = {(one["point"], one["attempt"]) for one in points}
    rows = pq.read_table(Path(run.folder.uri, "samples.parquet")).to_pylist()
    return {
        (row["point"], row["worker"], row["value"])
        for row in rows
        if (row["point"], row["attempt"]) in counts
    }


def test_only_the_point_that_failed_on_a_worker_runs_again(tmp_path: Path) -> None:
    run = three_points(tmp_path)
    broken = break_point(run, 1, worker=1)
    outcome, results = one_pass(run)
    assert (exit_code_of(outcome), results.passed) == (ExitCode.WORKLOAD_FAILED, 2)
    broken.unlink()
    go_on(run)
    outcome, results = one_pass(run)
    assert [attempt.end for attempt in outcome.attempts] == ["failed", "succeeded"]
    assert exit_code_of(outcome) is ExitCode.DONE
    assert [(one.point, one.attempt, one.status) for one in results.points] == [
        (0, 1, "passed"),
        (1, 2, "passed"),
        (2, 1, "passed"),
    ]
    assert values(run) == {(n, worker, 2.0 if n == 1 else 1.0) for n in range(3) for worker in range(2)}
    written = Path(run.folder.uri, "results", "points-a2-w0000.jsonl").read_text().splitlines()
    assert [json.loads(line)["point"] for line in written] == [1], "points keep their numbers"


def test_a_point_that_fails_again_is_missing_still(tmp_path: Path) -> None:
    run = three_points(tmp_path)
    break_point(run, 0, worker=0)
    for n in (1, 2):
        go_on(run)
        outcome, results = one_pass(run)
        assert [attempt.end for attempt in outcome.attempts] == ["failed"] * n
        assert results.points[0].attempt == n
    assert missing_points(run, read_attempts(run)) == (0,)


def test_without_being_asked_to_go_on_a_failed_workload_is_not_measured_again(tmp_path: Path) -> None:
    run = three_points(tmp_path)
    break_point(run, 0, worker=0)
    first, _ = one_pass(run)
    run.forget_from("collect")
    assert one_pass(run)[0] == first


def test_a_run_that_passed_is_left_alone(tmp_path: Path) -> None:
    run = three_points(tmp_path)
    one_pass(run)
    before = run.folder.read("stages/run.json")
    go_on(run)
    assert run.folder.read("stages/run.json") == before


def test_starting_over_measures_everything_again(tmp_path: Path) -> None:
    run = three_points(tmp_path)
    one_pass(run)
    run.forget_from("run")
    start_over(run)
    outcome, results = one_pass(run)
    assert [attempt.end for attempt in outcome.attempts] == ["succeeded", "succeeded"]
    assert {one.attempt for one in results.points} == {2}


def test_what_is_started_over_and_fails_goes_on_with_its_own_rest(tmp_path: Path) -> None:
    run = three_points(tmp_path)
    one_pass(run)
    run.forget_from("run")
    start_over(run)
    broken = break_point(run, 2, worker=0)
    one_pass(run)
    broken.unlink()
    go_on(run)
    _, results = one_pass(run)
    assert [one.attempt for one in results.points] == [2, 2, 3]


def test_samples_that_cannot_be_read_are_measured_again_and_their_damage_is_over(tmp_path: Path) -> None:
    run = three_points(tmp_path)
    one_pass(run)
    torn = Path(run.folder.uri, samples_file(1, 1))
    torn.write_bytes(torn.read_bytes()[:40])
    run.forget_from("collect")
    _, results = one_pass(run)
    assert [trouble.kind for trouble in results.troubles] == ["damaged"]
    go_on(run)
    _, results = one_pass(run)
    assert results.troubles == []
    assert {one.attempt for one in results.points} == {2}


def test_an_attempt_that_was_lost_after_everything_had_passed_leaves_nothing_to_measure(
    tmp_path: Path,
) -> None:
    run = three_points(tmp_path)
    one_pass(run)
    write_attempts(run, [replace(one, end="lost", cause="killed") for one in read_attempts(run)])
    run.forget_from("run")
    outcome, results = one_pass(run)
    assert outcome.attempts == [Attempt(1, "lost", "killed"), Attempt(2, "succeeded")]
    assert results.passed == POINTS
    assert not Path(run.folder.uri, "scratch", "a2-w0000").exists()


@pytest.mark.parametrize("end", ["", "lost", "succeeded"])
def test_what_has_all_been_measured_needs_no_workers(tmp_path: Path, end: str) -> None:
    run = three_points(tmp_path)
    assert something_to_measure(run)
    one_pass(run)
    write_attempts(run, [replace(one, end=end) for one in read_attempts(run)])
    run.forget_from("provision")
    assert not something_to_measure(run)
    assert run.marker("collect") is None, (
        "what was made of an attempt that is no longer the last is made again"
    )
    outcome = run_workload(run, None, None)  # type: ignore[arg-type]  # finished: it only tells
    assert exit_code_of(outcome) is ExitCode.DONE
    assert [one.end for one in outcome.attempts] == (
        ["succeeded"] if end == "succeeded" else ["lost", "succeeded"]
    )
    assert collect(run).passed == POINTS


def test_a_point_that_failed_needs_workers(tmp_path: Path) -> None:
    run = three_points(tmp_path)
    break_point(run, 1, worker=1)
    one_pass(run)
    assert not something_to_measure(run), "it ran, and nobody asked for more"
    go_on(run)
    assert something_to_measure(run)


def test_what_a_preempted_attempt_measured_does_not_count(tmp_path: Path) -> None:
    run = three_points(tmp_path)
    one_pass(run)
    preempted = [replace(one, end="preempted") for one in read_attempts(run)]
    assert missing_points(run, preempted) == (0, 1, 2)


@pytest.mark.parametrize("content", ["", "{", "[1]", "3", '[{"nosuch": 2}]'])
def test_damaged_attempts_name_the_file_and_the_fix(tmp_path: Path, content: str) -> None:
    run = three_points(tmp_path)
    run.folder.write("attempts.json", content.encode())
    with pytest.raises(
        InfrastructureError, match=r"run-1/attempts.json is damaged .*--resume run-1 --from run"
    ):
        read_attempts(run)


def test_starting_over_gets_by_without_a_record_of_attempts_and_uses_no_number_twice(tmp_path: Path) -> None:
    run = three_points(tmp_path)
    one_pass(run)
    run.folder.write("attempts.json", b"{")
    run.forget_from("run")
    start_over(run)
    outcome, results = one_pass(run)
    assert [attempt.n for attempt in outcome.attempts] == [1, 2]
    assert {one.attempt for one in results.points} == {2}


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"outputs": 3}'])
def test_a_damaged_marker_names_the_file_and_the_fix(tmp_path: Path, content: str) -> None:
    run = three_points(tmp_path)
    run.folder.write("stages/collect.json", content.encode())
    fix = rf"slicebench run --resume run-1 --from collect --output {tmp_path}"
    with pytest.raises(InfrastructureError, match=rf"run-1/stages/collect.json is damaged .*: {fix}"):
        run.marker("collect")
    run.forget_from("collect")
    assert run.marker("collect") is None


def test_attempts_of_an_older_slicebench_are_read(tmp_path: Path) -> None:
    run = three_points(tmp_path)
    row: dict[str, Any] = {"n": 1, "ref": None, "end": "failed", "cause": "x"}
    run.folder.write("attempts.json", json.dumps([row]).encode())
    assert read_attempts(run) == [Started(1, None, "failed", "x")]
