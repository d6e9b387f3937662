"""A workload that is stopped on purpose once checkpoints are complete, on this machine, with the stand-in."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runtime.contract.disruption import Disruption
from runtime.contract.errors import BadInput, ExitCode
from runtime.contract.suite import Point
from tasks.config.spec import RunSpec
from tasks.config.target import LocalTargetConfig
from tasks.leases.holding import Holding
from tasks.stages.attempts import read_attempts, write_attempts
from tasks.stages.context import Run
from tasks.stages.provision import provision
from tasks.stages.run import exit_code_of, outcome_of, run_workload
from tasks.stages.stopping import refuse_unstoppable
from tasks.stages.teardown import teardown
from tasks.stages.upload import upload
from tasks.targets.types import Uploaded, WorkloadRef
from tests.tasks.targets.local_runs import IMAGE, alive_under, hold, make_run, point, spec


def begun(tmp_path: Path, said: list[str] | None = None, **env: str) -> tuple[Run, Uploaded, Holding]:
    of = spec(tmp_path, workload="train")
    of = replace(of, stop_after_checkpoints=2, env={**of.env, **env})
    run = make_run(of, said)
    holding = hold(run)
    return run, upload(run, provision(run, holding), IMAGE), holding


def ends(run: Run) -> list[tuple[int, str, bool]]:
    return [(one.n, one.end, one.stopped) for one in read_attempts(run)]


def stopped(run: Run) -> dict[str, Any]:
    content = run.folder.read("stopped-a1.json")
    assert content
    return json.loads(content)  # type: ignore[no-any-return]


def test_it_is_stopped_once_and_goes_on_from_the_newest_on_the_same_hardware(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    run, uploaded, holding = begun(tmp_path, said)
    asked, stop = list[tuple[float, bool]](), run.target.stop

    def stopping(_: object, ref: WorkloadRef, grace_s: float) -> None:
        asked.append((grace_s, run.folder.read("stopped-a1.json") is not None))
        stop(ref, grace_s)

    monkeypatch.setattr(type(run.target), "stop", stopping)
    outcome = run_workload(run, uploaded, holding)
    assert asked[0] == (0.0, True), "without time to save, and written down before"
    assert ends(run) == [(1, "preempted", True), (2, "succeeded", False)]
    assert exit_code_of(outcome) is ExitCode.DONE and outcome_of(run) == outcome
    there = stopped(run)
    assert (there["asked"], there["attempt"]) == (2, 1)
    complete = there["complete"]
    assert len(complete) >= 2 and complete == list(range(len(complete)))
    assert there["reached"]["saved"] == complete[-1]
    second = read_attempts(run)[1]
    assert second.restart is not None and second.restart.saved == complete[-1]
    sizes = {one["step"]: (one["objects"], one["bytes"]) for one in there["checkpoints"]}
    assert sizes[0] == (2, 68), "what both workers wrote"
    assert set(complete) <= set(sizes)
    assert there["looked"] and set(there["readable"]) >= {"0/of-0", "1/of-1"}
    assert any("the workload is deleted" in line for line in said)
    assert not any("new hardware" in line or "provision" in line for line in said)
    teardown(run, holding)
    assert alive_under("run-1-e1") == []


def test_who_was_killed_while_it_was_being_stopped_does_not_stop_it_again(tmp_path: Path) -> None:
    run, uploaded, holding = begun(tmp_path)
    run_workload(run, uploaded, holding)
    first = read_attempts(run)[0]
    run.forget_from("run")
    # As it is written down between the blow and its end.
    write_attempts(run, [replace(first, end="", cause="", stopped=False, reached=None)])
    run_workload(run, uploaded, holding)
    assert ends(run) == [(1, "preempted", True), (2, "succeeded", False)]
    second = read_attempts(run)[1]
    assert second.restart is not None and second.restart.saved == first.reached.saved  # type: ignore[union-attr]
    teardown(run, holding)


def test_one_that_was_lost_before_is_stopped_in_the_next(tmp_path: Path) -> None:
    run, uploaded, holding = begun(tmp_path)
    ref = run.target.start(uploaded, 1, holding)
    run.target.stop(ref, 0.0)
    Path(ref.scratch[0], "stream.jsonl").unlink(missing_ok=True)
    Path(ref.scratch[1], "stream.jsonl").unlink(missing_ok=True)
    (tmp_path / "run-1" / "attempts.json").write_text(
        '[{"n": 1, "ref": null, "end": "lost", "cause": "gone"}]'
    )
    run_workload(run, uploaded, holding)
    assert ends(run) == [(1, "lost", False), (2, "preempted", True), (3, "succeeded", False)]
    teardown(run, holding)


def test_one_that_is_over_before_did_not_prove_anything(tmp_path: Path) -> None:
    run, uploaded, holding = begun(tmp_path, STEPS="1")
    outcome = run_workload(run, uploaded, holding)
    assert exit_code_of(outcome) is ExitCode.INFRASTRUCTURE and outcome_of(run) is None
    [attempt] = read_attempts(run)
    assert (attempt.end, attempt.counts) == ("lost", False)
    assert "before it could be stopped" in attempt.cause and "train_steps" in attempt.cause
    teardown(run, holding)


TRAINING = replace(
    point(),
    generator="runtime.benchmarks.training.Training",
    options={"train_steps": 60, "save_interval_steps": 10},
)


@pytest.mark.parametrize(
    ("asked", "points", "more", "what"),
    [
        (3, [TRAINING], {}, None),
        (5, [TRAINING], {}, None),
        (None, [point()], {}, None),
        (6, [TRAINING], {}, "it saves 6 checkpoints in all"),
        (3, [TRAINING, TRAINING], {}, "2 benchmarks"),
        (3, [TRAINING], {"num_repeats": 2}, "2 repeats each"),
        (3, [replace(TRAINING, disruption=Disruption(at_step=1))], {}, "disrupts its workers by itself"),
        (3, [point()], {}, "tiny does not go on by itself"),
        (3, [replace(point(), generator="mine.Own", implementation="user")], {}, None),
    ],
)
def test_what_could_not_go_on_is_refused(
    asked: int | None, points: Sequence[Point], more: dict[str, Any], what: str | None
) -> None:
    of: RunSpec = replace(spec("/o", points=points), stop_after_checkpoints=asked, **more)
    if what is None:
        refuse_unstoppable(of)
        return
    with pytest.raises(BadInput) as refused:
        refuse_unstoppable(of)
    [problem] = refused.value.problems
    assert what in problem.what and problem.what.startswith("--stop-after-checkpoints") and problem.fix


def test_disks_of_hosts_keep_nothing_for_the_next_start() -> None:
    class Hosts(LocalTargetConfig):
        kind: Any = "tpu_vm"

    of = replace(spec("/o", points=[TRAINING]), stop_after_checkpoints=3, target=Hosts())
    with pytest.raises(BadInput, match="--output gs://"):
        refuse_unstoppable(of)
    refuse_unstoppable(replace(of, output="gs://b/o"))
