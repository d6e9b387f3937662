"""The flow with stand-ins for its stages: their order, and that teardown comes whatever happens."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flows.benchmark import benchmark
from runtime.contract.errors import InfrastructureError, Leaked, WorkloadFailed
from runtime.contract.process import started_at
from runtime.contract.results import PointStatus
from tasks.cloud.calls import calling
from tasks.config.home import ledger_folder
from tasks.history.results import PointOutcome, Results
from tasks.history.verdict import Verdict
from tasks.leases.directory_ledger import DirectoryLedger
from tasks.leases.lease import State
from tasks.leases.owner import this_process
from tasks.leases.steps import plan
from tests.flows.stage_stubs import STAGES, Stages


@pytest.fixture
def stages(monkeypatch: pytest.MonkeyPatch, prefect: None) -> Stages:
    return Stages(monkeypatch)


def start(tmp_path: Path, **more: Any) -> Any:
    return benchmark(suite="quickstart", output=str(tmp_path), run_id="r", return_state=True, **more)


def outcome(tmp_path: Path) -> dict[str, Any]:
    return dict(json.loads((tmp_path / "r" / "outcome.json").read_text()))


def contents(folder: Path) -> dict[str, bytes]:
    files = [file for file in folder.rglob("*") if file.is_file()]
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def all_given_back() -> bool:
    found = DirectoryLedger(ledger_folder()).listing().leases
    return bool(found) and all(lease.state is State.GONE for lease in found)


@pytest.mark.parametrize("verbose", [True, False])
def test_calls_of_the_run_are_told_in_its_log_when_that_is_asked_for(
    stages: Stages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verbose: bool
) -> None:
    def call() -> None:
        for what in (f"me@host {len(stages.called)} hunter22", "me@host again and again"):
            with calling("ssh", what):
                pass

    monkeypatch.setenv("HF_TOKEN", "hunter22")
    stages.on_call = call
    assert start(tmp_path, verbose=verbose).is_completed()
    call()  # after the run, and so not its own
    log = (tmp_path / "r" / "run.log").read_text()
    told = [f" call ssh: me@host {number} (redacted): ok, " for number in range(1, len(STAGES) + 1)]
    assert [one for one in told if one in log] == (told if verbose else [])
    assert log.count(" call ssh: ") == (len(STAGES) + 1 if verbose else 0), (
        "a call that is repeated, not each time"
    )
    assert "hunter22" not in log


def test_the_stages_come_in_order_and_the_verdict_is_the_state(stages: Stages, tmp_path: Path) -> None:
    state = start(tmp_path)
    assert stages.called == STAGES
    assert state.is_completed()
    assert state.message == "NO_BASELINE: a reason"
    assert outcome(tmp_path)["exit_code"] == 0
    assert outcome(tmp_path)["report"] == "/where/report.html"
    log = (tmp_path / "r" / "run.log").read_text().splitlines()
    assert [line.partition(" ")[2] for line in log] == [f"this is {name}" for name in STAGES]
    assert all_given_back()


@pytest.mark.parametrize(
    ("stage", "error", "code"),
    [
        ("build", InfrastructureError("no network\nat all"), 3),
        ("provision", InfrastructureError("no machines"), 3),
        ("run", WorkloadFailed("wrong data"), 1),
        ("report", InfrastructureError("disk full"), 3),
    ],
)
def test_teardown_comes_after_a_stage_that_failed(
    stages: Stages, tmp_path: Path, stage: str, error: BaseException, code: int
) -> None:
    stages.raises[stage] = error
    state = start(tmp_path)
    through = STAGES[: STAGES.index(stage) + 1]
    assert stages.called == (through if "teardown" in through else [*through, "teardown"])
    assert state.is_failed()
    assert state.message.endswith(str(error).splitlines()[0])
    assert "\n" not in state.message
    assert outcome(tmp_path)["exit_code"] == code
    assert outcome(tmp_path)["causes"] == [str(error)]
    assert all_given_back()


def test_what_leaked_outranks_what_failed_and_both_are_told(stages: Stages, tmp_path: Path) -> None:
    stages.raises["collect"] = InfrastructureError("torn file")
    stages.raises["teardown"] = Leaked("process 7 is still there")
    state = start(tmp_path)
    assert state.message.startswith("LEAKED: ")
    assert outcome(tmp_path)["exit_code"] == 5
    assert outcome(tmp_path)["causes"] == ["torn file", "process 7 is still there"]


def test_ctrl_c_gives_everything_back_before_it_goes_on_up(stages: Stages, tmp_path: Path) -> None:
    stages.raises["run"] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        start(tmp_path)
    assert stages.called[-1] == "teardown"
    assert outcome(tmp_path)["exit_code"] == 130
    assert all_given_back()


def test_a_bug_of_ours_gives_everything_back_and_says_so(stages: Stages, tmp_path: Path) -> None:
    stages.raises["upload"] = KeyError("bug")
    assert start(tmp_path).is_failed()
    assert stages.called[-1] == "teardown"
    assert outcome(tmp_path)["causes"] == ["slicebench itself failed: KeyError: 'bug'"]
    assert all_given_back()


def test_a_point_that_failed_fails_the_run_and_names_itself(stages: Stages, tmp_path: Path) -> None:
    point = PointOutcome(0, "ocdbt", "k", "g", "native", "failed", "worker 1: leaf a/b differs")
    stages.results = Results("r", "s", "t", 1, [point])
    state = start(tmp_path)
    assert state.message == "WORKLOAD_FAILED: ocdbt: worker 1: leaf a/b differs"
    assert outcome(tmp_path)["exit_code"] == 1


@pytest.mark.parametrize(
    ("status", "verdict", "code"),
    [
        ("passed", Verdict.PASS, 0),
        ("passed", Verdict.IMPROVED, 0),
        ("passed", Verdict.INCONCLUSIVE, 0),
        ("passed", Verdict.NO_BASELINE, 0),
        ("passed", Verdict.REGRESSED, 4),
        ("passed", Verdict.NOT_RUN, 3),  # it passed, and nothing of it was timed
        ("failed", Verdict.NOT_RUN, 1),
        ("not_run", Verdict.NOT_RUN, 3),
    ],
)
def test_a_run_never_ends_better_than_its_verdict(
    stages: Stages, tmp_path: Path, status: PointStatus, verdict: Verdict, code: int
) -> None:
    stages.results = Results("r", "s", "t", 1, [PointOutcome(0, "ocdbt", "k", "g", "native", status, "why")])
    stages.verdict = verdict
    assert start(tmp_path).is_completed() is (code == 0)
    told = outcome(tmp_path)
    assert (told["exit_code"], told["verdict"]) == (code, "FAILED" if status == "failed" else verdict)
    assert bool(told["causes"]) is (code != 0)


def test_a_resumed_run_makes_no_hardware_for_what_is_there(stages: Stages, tmp_path: Path) -> None:
    stages.raises["collect"] = InfrastructureError("torn file")
    start(tmp_path)
    stages.raises.clear()
    stages.called.clear()
    assert start(tmp_path, resume=True).is_completed()
    assert stages.called == ["collect", "teardown", "compare", "report"]
    assert outcome(tmp_path)["exit_code"] == 0


@pytest.mark.parametrize("verdict", [Verdict.PASS, Verdict.REGRESSED])
def test_a_run_that_lacks_nothing_is_left_exactly_as_it_is(
    stages: Stages, tmp_path: Path, verdict: Verdict
) -> None:
    stages.verdict = verdict
    first = start(tmp_path)
    before = contents(tmp_path / "r")
    leases_before = contents(ledger_folder())
    stages.called.clear()
    again = start(tmp_path, resume=True)
    assert stages.called == []
    assert (again.type, again.is_completed()) == (first.type, verdict is Verdict.PASS)
    assert (contents(tmp_path / "r"), contents(ledger_folder())) == (before, leases_before)
    (tmp_path / "r" / "report.html").unlink()
    start(tmp_path, resume=True)
    assert stages.called == ["collect", "teardown", "compare", "report"]
    stages.called.clear()
    start(tmp_path, resume=True, from_stage="run")
    assert stages.called == STAGES


def test_a_run_in_another_process_s_hands_is_left_to_that(stages: Stages, tmp_path: Path) -> None:
    start(tmp_path)
    (tmp_path / "r" / "outcome.json").unlink()
    owner = replace(this_process(), pid=1, started_at=started_at(1) or 0.0)
    DirectoryLedger(ledger_folder()).write(plan("r", "r", 2, owner, time.time(), time.time() + 180.0))
    before = contents(tmp_path / "r")
    state = start(tmp_path, resume=True, from_stage="run")
    assert "r is held by " in state.message and "process 1 on" in state.message
    after = contents(tmp_path / "r")
    assert {**after, "run.log": b""} == {**before, "run.log": b""}, (
        "it wrote no outcome and took nothing back"
    )


def test_no_pass_begins_with_the_word_that_the_run_has_ended(stages: Stages, tmp_path: Path) -> None:
    stages.raises["collect"] = InfrastructureError("torn file")
    start(tmp_path)
    stages.raises["collect"] = KeyboardInterrupt()
    seen: list[bool] = []
    stages.on_call = lambda: seen.append((tmp_path / "r" / "outcome.json").exists())
    with pytest.raises(KeyboardInterrupt):
        start(tmp_path, resume=True)
    assert seen == [False] * len(seen) and seen
    assert outcome(tmp_path)["exit_code"] == 130
    passes = json.loads((tmp_path / "r" / "passes.json").read_text())
    assert len(passes) == 2
    assert outcome(tmp_path)["took_s"] == sum(one["ended_at"] - one["began_at"] for one in passes)


def test_bad_input_makes_nothing(stages: Stages, tmp_path: Path) -> None:
    state = start(tmp_path, set=["no_such_key=1"])
    assert stages.called == []
    assert state.message.startswith("BAD_INPUT: ")
    assert list(tmp_path.iterdir()) == []
    assert not ledger_folder().exists()
