"""The stages provision, upload, run and teardown on this machine, with the stand-in for the supervisor."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runtime.contract.errors import BadInput, ExitCode, Leaked
from runtime.contract.job import Deadlines
from runtime.contract.names import STREAM_FILE
from tasks.config.home import home, ledger_folder
from tasks.config.target import LocalTargetConfig
from tasks.leases.holding import Fenced, Holding
from tasks.leases.lease import State
from tasks.leases.patience import Patience
from tasks.stages.attempts import read_attempts, write_attempts
from tasks.stages.context import Run
from tasks.stages.following import how_it_ended
from tasks.stages.provision import provision
from tasks.stages.run import exit_code_of, outcome_of, run_workload
from tasks.stages.teardown import teardown
from tasks.stages.upload import upload
from tasks.targets.types import Attempt, Event, Exited, Progress, Uploaded, WorkloadRef
from tasks.targets.types import State as Told
from tests.tasks.targets.local_runs import IMAGE, alive_under, hold, make_run, point, spec


def prepare(run: Run) -> tuple[Uploaded, Holding]:
    holding = hold(run)
    return upload(run, provision(run, holding), IMAGE), holding


def test_a_run_that_succeeds_leaves_markers_logs_and_nothing_else_alive(tmp_path: Path) -> None:
    said: list[str] = []
    progress: list[Progress] = []
    heard_before: list[int] = []
    run = make_run(spec(tmp_path), said)
    uploaded, holding = prepare(run)
    assert holding.lease.state is State.LIVE
    outcome = run_workload(
        run, uploaded, holding, progress.append, lambda: heard_before.append(len(progress))
    )
    assert heard_before == [0], "once, before anything is measured"
    assert outcome.attempts == [Attempt(1, "succeeded")]
    assert exit_code_of(outcome) is ExitCode.DONE
    assert len(progress) == 4
    logs = {path.name: path.read_text() for path in (tmp_path / "run-1" / "logs").glob("*.log")}
    assert logs == {f"worker-000{worker}.log": f"worker {worker} of 2 on 2 devices\n" for worker in (0, 1)}
    assert (tmp_path / "run-1" / "suite.yaml").read_text() == "suite_name: tiny\n"
    done = teardown(run, holding)
    assert done.lease.state is State.GONE
    assert alive_under("run-1-e1") == []
    stages = sorted(path.stem for path in (tmp_path / "run-1" / "stages").glob("*.json"))
    assert stages == ["provision", "run", "teardown", "upload"]
    assert outcome_of(run) == outcome
    assert run_workload(run, uploaded, holding) == outcome, "a finished stage does nothing again"


def test_no_secret_is_in_markers_ledger_logs_or_anything_said(tmp_path: Path) -> None:
    secret, said = "hf_Geheim42", list[str]()
    about = spec(tmp_path, workload="tell")
    about = replace(about, env={**about.env, "HF_TOKEN": secret}, secret_env=frozenset({"HF_TOKEN"}))
    run = make_run(about, said)
    uploaded, holding = prepare(run)
    outcome = run_workload(run, uploaded, holding)
    assert outcome.attempts[0].cause == "worker 0: (redacted) was refused"
    ledger = ledger_folder().rglob("*")
    assert not [file for file in ledger if file.is_file() and secret in file.read_text()]
    teardown(run, holding)
    # Workers' own streams are redacted by their supervisors, for which a stand-in stands here.
    places = (*home().rglob("*"), *tmp_path.rglob("*"))
    written = [file for file in places if file.is_file() and file.name != STREAM_FILE]
    assert {"run.json", "teardown.json", "worker-0000.log", "run-1-e1.json"} <= {
        file.name for file in written
    }
    assert not [file for file in written if secret.encode() in file.read_bytes()]
    assert secret not in "".join(said) and "it is (redacted)" in "".join(said)


def test_a_workload_that_fails_is_an_outcome_with_the_cause(tmp_path: Path) -> None:
    run = make_run(spec(tmp_path, workload="fail"))
    uploaded, holding = prepare(run)
    outcome = run_workload(run, uploaded, holding)
    assert outcome.attempts == [Attempt(1, "failed", "worker 0: wrong data")]
    assert exit_code_of(outcome) is ExitCode.WORKLOAD_FAILED
    teardown(run, holding)


def test_a_lost_attempt_is_no_finished_stage_and_the_next_call_tries_again(tmp_path: Path) -> None:
    run = make_run(spec(tmp_path, workload="crash"))
    uploaded, holding = prepare(run)
    outcome = run_workload(run, uploaded, holding)
    assert [attempt.end for attempt in outcome.attempts] == ["lost"]
    assert exit_code_of(outcome) is ExitCode.INFRASTRUCTURE
    assert outcome_of(run) is None
    better = replace(uploaded, workload=replace(uploaded.workload, env={"WORKLOAD": "succeed"}))
    outcome = run_workload(run, better, holding)
    assert [(attempt.n, attempt.end) for attempt in outcome.attempts] == [(1, "lost"), (2, "succeeded")]
    assert (tmp_path / "run-1" / "logs" / "attempt-2" / "worker-0000.log").exists()
    teardown(run, holding)


def test_an_attempt_that_is_found_lost_is_told_from_the_one_that_follows(tmp_path: Path) -> None:
    said: list[str] = []
    run = make_run(spec(tmp_path, workload="crash"), said)
    uploaded, holding = prepare(run)
    run_workload(run, uploaded, holding)
    [attempt] = read_attempts(run)
    write_attempts(run, [replace(attempt, end="", cause="")])  # as a slicebench that was killed leaves it
    del said[:]
    better = replace(uploaded, workload=replace(uploaded.workload, env={"WORKLOAD": "succeed"}))
    run_workload(run, better, holding)
    told = [line.partition(":")[0] for line in said if line.startswith("attempt ")]
    assert told == [
        "attempt 1 was begun before; what its workers said since nobody listened",
        "attempt 1 lost",
        "attempt 2",
        "attempt 2 succeeded",
    ]
    teardown(run, holding)


def test_an_interrupt_stops_the_workload_once_and_is_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(spec(tmp_path, workload="wait"))
    uploaded, holding = prepare(run)
    stopped: list[int] = []
    stop = run.target.stop
    monkeypatch.setattr(
        run.target, "stop", lambda ref, grace_s: (stopped.append(ref.attempt), stop(ref, grace_s))
    )

    def interrupt(progress: Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_workload(run, uploaded, holding, interrupt)
    assert stopped == [1], "asked once: each time may wait for every host"
    assert alive_under("run-1-e1") == []
    [attempt] = json.loads((tmp_path / "run-1" / "attempts.json").read_text())
    assert (attempt["end"], attempt["cause"]) == ("interrupted", "KeyboardInterrupt")
    assert outcome_of(run) is None
    teardown(run, holding)


def test_a_stage_called_again_follows_what_still_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(spec(tmp_path, workload="wait"))
    uploaded, holding = prepare(run)
    with monkeypatch.context() as patch:
        # A follower that is killed stops nothing: what runs, runs on.
        patch.setattr(run.target, "stop", lambda ref, grace_s: None)
        patch.setattr("tasks.stages.run.write_attempts", _write_but_no_end)
        patch.setattr("tasks.follow.Follower.follow", _die)
        with pytest.raises(SystemExit):
            run_workload(run, uploaded, holding)
    running = sorted(alive_under("run-1-e1"))
    assert len(running) == 2
    seen: list[list[int]] = []

    def let_go(progress: Progress) -> None:
        seen.append(sorted(alive_under("run-1-e1")))
        for scratch in (tmp_path / "run-1" / "scratch").iterdir():
            (scratch / "go").touch()

    outcome = run_workload(run, uploaded, holding, let_go)
    assert seen[0] == running, "the same processes, not new ones"
    assert outcome.attempts == [Attempt(1, "succeeded")]
    teardown(run, holding)


def _die(*arguments: object) -> None:
    raise SystemExit


def _write_but_no_end(run: Run, attempts: list[Any]) -> None:
    if not attempts[-1].end:
        write_attempts(run, attempts)


def test_a_lost_lease_ends_the_stage(tmp_path: Path) -> None:
    run = make_run(spec(tmp_path, workload="wait"))
    uploaded, holding = prepare(run)
    stolen: list[Holding] = []

    def steal(progress: Progress) -> None:
        if not stolen:
            stolen.append(hold(run))
            with pytest.raises(Fenced):
                holding.check()
            holding.check()

    with pytest.raises(Fenced):
        run_workload(run, uploaded, holding, steal)
    with pytest.raises(Fenced):
        teardown(run, holding)
    assert teardown(run, stolen[0]).lease.state is State.GONE
    assert alive_under("run-1-e1") == []


def test_bad_input_makes_nothing(tmp_path: Path) -> None:
    run = make_run(
        spec(
            tmp_path, points=[point(devices=4)], target=LocalTargetConfig(kind="local", devices_per_worker=3)
        )
    )
    holding = hold(run)
    with pytest.raises(BadInput, match="no mesh fits"):
        provision(run, holding)
    assert holding.lease.resources == ()
    assert teardown(run, holding).deleted == ()


def test_what_is_left_makes_teardown_fail_loudly(tmp_path: Path) -> None:
    run = make_run(spec(tmp_path))
    holding = hold(run)
    holding.create("quantum", "zone", "q0", lambda: "uid")
    with pytest.raises(
        Leaked,
        match=r"run-1-e1: not proven gone: cannot look at quantum q0: no inventory of quantum .* `slicebench reap`",
    ) as error:
        teardown(run, holding, patience=Patience(grace_s=0, deadline_s=0.1, look_every_s=0.02))
    assert error.value.exit_code is ExitCode.LEAKED
    assert run.marker("teardown") is None


@pytest.mark.parametrize(
    ("codes", "end", "cause"),
    [
        ({0: (0, ""), 1: (0, "")}, "succeeded", ""),
        ({0: (1, "wrong data"), 1: (1, "wrong data")}, "failed", "wrong data"),
        ({0: (3, "worker 1 is gone"), 1: (-9, "killed")}, "lost", "worker 1 is gone"),
        ({0: (-9, "killed"), 1: (-9, "killed")}, "lost", "killed"),
        ({0: (0, ""), 1: (-9, "killed")}, "lost", "killed"),
        ({0: (130, "told to stop"), 1: (3, "lost supervisor 0")}, "interrupted", "told to stop"),
        ({0: (2, "no mesh fits")}, "failed", "no mesh fits"),
        ({}, "lost", "no worker said how it ended"),
    ],
)
def test_how_an_attempt_ended(codes: dict[int, tuple[int, str]], end: str, cause: str) -> None:
    exits = {worker: Exited(worker, code, told) for worker, (code, told) in codes.items()}
    assert how_it_ended(exits) == (end, cause)


def test_time_in_a_queue_does_not_count_towards_the_run_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []

    class Timer:
        def __init__(self, limit_s: float, stop: Any, args: Any) -> None:
            self.limit_s = limit_s

        def start(self) -> None:
            begun.append(f"{self.limit_s:g}")

        def cancel(self) -> None:
            begun.append("over")

    monkeypatch.setattr("tasks.stages.following.threading.Timer", Timer)
    run = make_run(replace(spec(tmp_path), deadlines=Deadlines(run_s=60.0)))
    seen: list[list[str]] = []

    class Queued:
        def follow(self, ref: WorkloadRef, since: Any) -> Iterator[Event]:
            yield Told("queued", "WaitingForQuota")
            seen.append(list(begun))
            yield from run.target.follow(ref, since)

        def __getattr__(self, name: str) -> Any:
            return getattr(run.target, name)

    uploaded, holding = prepare(run)
    outcome = run_workload(replace(run, target=Queued()), uploaded, holding)
    teardown(run, holding)
    assert outcome.attempts == [Attempt(1, "succeeded")]
    assert seen == [[]], "nothing counts while it waits"
    assert begun == ["180", "over"]
