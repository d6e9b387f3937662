"""Training that is stopped: it goes on from the newest checkpoint as if nothing had been, or fails and says why."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import orbax.checkpoint as ocp
import pytest

from runtime.contract.results import Sample
from runtime.contract.suite_reader import read_suite
from tasks.history.acceptance_log import read_log
from tests.runtime.test_steps import Runs, Teller

TRAINING = "runtime.benchmarks.training.Training"
OPTIONS = "train_steps: 8, save_interval_steps: 3, max_to_keep: 3, layers: 2, width: 16, batch: 2"


class Trainings(Runs):
    def __init__(self, folder: Path, options: str = OPTIONS, more: str = "") -> None:
        text = f"suite_name: t\nbenchmarks: [{{generator: {TRAINING}, options: {{{options}}}{more}}}]\n"
        self.suite = read_suite(text, "suite.yaml")
        self.folder = folder

    def losses(self) -> dict[int, set[float]]:
        """Returns by step what was told of its loss, however often it was done."""
        found: dict[tuple[str, int], dict[str, list[float]]] = {}
        for one in self.records():
            if isinstance(one, Sample) and one.metric in ("loss", "step"):
                at = found.setdefault((one.operation, one.occurrence), {})
                at.setdefault(one.metric, []).append(one.value)
        losses: dict[int, set[float]] = {}
        for told in found.values():
            [step], [loss] = told["step"], told["loss"]
            losses.setdefault(int(step), set()).add(loss)
        return losses

    def checkpoint(self, step: int) -> Path:
        [found] = (self.folder / "run").glob(f"checkpoints/*/repeat_0/{step}")
        return found


def stopped(saved: int | None, begun: int, point: int | None = 0) -> dict[str, Any]:
    """What the next attempt is told after one that was taken away."""
    return {"repeat": 0, "saved": saved, "begun": begun, "point": point}


def last_line(capsys: pytest.CaptureFixture[str]) -> str:
    return next(line for line in capsys.readouterr().out.splitlines() if line.startswith("after step 7: "))


@pytest.mark.parametrize("asynchronous", ["true", "false"])
def test_it_goes_on_as_if_nothing_had_been(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], asynchronous: str
) -> None:
    options = f"{OPTIONS}, async_enabled: {asynchronous}"
    whole = Trainings(tmp_path / "whole", options)
    assert whole.go(Teller()).status == "passed"
    expected = last_line(capsys)
    runs = Trainings(tmp_path / "broken", options)
    runs.killed("trained", 5)
    capsys.readouterr()
    teller = Teller()
    result = runs.go(teller, stopped(3, 5))
    assert (result.status, result.cause) == ("passed", "")
    assert teller.steps[0] == ("resumed", 3)
    assert [step for state, step in teller.steps if state == "trained"] == [4, 5, 6, 7]
    told = capsys.readouterr().out
    assert expected in told.splitlines()
    [heard] = read_log(told.splitlines())
    assert (heard.resumed, list(heard.losses)) == (3, [4, 5, 6, 7])
    assert (len(heard.saves), len(heard.restores)) == (1, 2)
    assert list(runs.losses()) == list(range(8)), "each step tells its loss"
    assert runs.losses() == whole.losses(), "to the bit, and the same where a step was done again"
    recovery = runs.samples("recovery")
    assert (recovery["resumed_from_step"], recovery["lost_steps"]) == (3, 2)
    assert all(recovery[part] > 0 for part in ("setup_s", "restore_s", "first_step_s"))
    assert "time_s" not in recovery, "when it was taken away is known elsewhere"


def test_a_worker_that_its_suite_kills_goes_on_too(tmp_path: Path) -> None:
    runs = Trainings(tmp_path, more=", disruption: {at_step: 3}")
    runs.killed("saved", 3)
    told = stopped(3, 4, point=None)
    assert runs.go(Teller(), told | {"killed_at": 1.0, "ended_at": 2.0}).status == "passed"
    recovery = runs.samples("recovery")
    assert recovery["detection_s"] == 1.0
    parts = ("detection_s", "start_s", "setup_s", "restore_s", "first_step_s")
    assert recovery["time_s"] == pytest.approx(sum(recovery[part] for part in parts))


def test_another_content_under_the_name_of_a_step_is_noticed(tmp_path: Path) -> None:
    runs = Trainings(tmp_path)
    runs.killed("trained", 5)
    shutil.rmtree(runs.checkpoint(3) / "state")
    shutil.copytree(runs.checkpoint(0) / "state", runs.checkpoint(3) / "state")
    cause = runs.go(Teller(), stopped(3, 5)).cause
    assert "is not what step 3 saved" in cause and "restored leaf" in cause


def test_a_complete_checkpoint_that_is_gone_is_a_failure(tmp_path: Path) -> None:
    runs = Trainings(tmp_path)
    told = runs.go(Teller(), stopped(3, 5))
    assert (told.status, told.cause) == ("failed", "the checkpoint of step 3 was complete, and none is there")


def test_one_that_was_stopped_before_its_first_checkpoint_begins_anew(tmp_path: Path) -> None:
    runs = Trainings(tmp_path)
    assert runs.go(Teller(), stopped(None, 0)).status == "passed"
    assert runs.samples("recovery") == {}
    assert "restore_after_restart" not in {
        one.operation for one in runs.records() if hasattr(one, "operation")
    }


def test_a_restart_of_another_point_is_none(tmp_path: Path) -> None:
    runs = Trainings(tmp_path)
    teller = Teller()
    assert runs.go(teller, stopped(3, 5, point=1)).status == "passed"
    assert teller.steps[0] == ("trained", 0)


def test_what_is_measured(tmp_path: Path) -> None:
    runs = Trainings(tmp_path, f"{OPTIONS}, step_s: 0.05")
    assert runs.go(Teller()).status == "passed"
    told = [one for one in runs.records() if hasattr(one, "metric") and one.metric == "time_s"]
    count = [sum(one.operation == name for one in told) for name in ("save", "restore")]
    assert count == [3, 1]
    steps = [one for one in told if one.operation in ("train_step", "train_step_meanwhile")]
    assert len(steps) == 8
    assert len({(one.operation, one.occurrence) for one in steps}) == 8, "each is a sample of its own"


def test_how_long_a_save_took_is_told_whenever_training_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Training looks at the end of each step, which is long after the end of a save here, by half a second."""
    began: list[float] = []
    returned: list[float] = []
    ended: list[float] = []
    manager = ocp.CheckpointManager
    save, wait = manager.save, manager.wait_until_finished

    def begins(self: Any, *arguments: Any, **more: Any) -> Any:
        began.append(time.perf_counter())
        done = save(self, *arguments, **more)  # which waits for what was saved before
        returned.append(time.perf_counter())
        return done

    def ends(self: Any) -> None:
        wait(self)
        if len(ended) < len(returned):
            ended.append(time.perf_counter())

    monkeypatch.setattr(manager, "save", begins)
    monkeypatch.setattr(manager, "wait_until_finished", ends)
    runs = Trainings(tmp_path, f"{OPTIONS.replace('8', '2')}, step_s: 0.5")
    assert runs.go(Teller()).status == "passed"
    assert runs.samples("save")["complete_after_s"] == pytest.approx(ended[0] - began[0], rel=0.05, abs=0.25)


def test_a_directory_of_its_own_is_gone_on_from_whoever_starts_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As pods of a JobSet that are started anew by the same template: nobody tells them of a restart."""
    whole = Trainings(tmp_path / "whole")
    assert whole.go(Teller()).status == "passed"
    expected = last_line(capsys)
    place = tmp_path / "own"
    options = f"{OPTIONS}, directory: {place}"
    Trainings(tmp_path / "first", options).killed("trained", 5)
    capsys.readouterr()
    again = Trainings(tmp_path / "second", options)
    result = again.go(Teller())
    assert (result.status, result.cause) == ("passed", "")
    assert last_line(capsys) == expected
    assert again.losses() == {step: whole.losses()[step] for step in range(4, 8)}
    assert again.samples("restore_after_restart")["resumed_from_step"] == 3
    assert again.samples("recovery") == {}, "nobody knows when it was stopped"
    assert again.samples("checkpoint")["files"] > 0
    assert sorted(path.name for path in (place / "repeat_0").iterdir()) == ["0", "3", "6"], "they stay"
    third = Trainings(tmp_path / "third", options)
    assert third.go(Teller()).status == "passed"
    assert list(third.losses()) == [7]


def test_it_begins_with_a_given_checkpoint_while_it_has_none(tmp_path: Path) -> None:
    whole = Trainings(tmp_path / "whole")
    assert whole.go(Teller()).status == "passed"
    given = f"{OPTIONS}, async_enabled: false, restores: 2, directory: {tmp_path / 'own'}"
    given += f", resume_from: {whole.checkpoint(0)}"
    first = Trainings(tmp_path / "first", given)
    first.killed("trained", 1)
    assert first.losses() == {1: whole.losses()[1]}
    second = Trainings(tmp_path / "second", given)
    second.killed("saved", 3)
    assert list(second.losses()) == [1, 2, 3], "nothing of its own was complete"
    last = Trainings(tmp_path / "last", given)
    assert last.go(Teller()).status == "passed"
    assert last.losses() == {step: whole.losses()[step] for step in range(4, 8)}, "now something is"
    restores = {
        one.occurrence for one in last.records() if isinstance(one, Sample) and one.operation == "restore"
    }
    assert restores == {0, 1}
    lost = Trainings(tmp_path / "lost", f"{OPTIONS}, resume_from: {whole.checkpoint(0).with_name('5')}")
    assert "resume_from: no complete checkpoint of step 5 is in " in lost.go(Teller()).cause


@pytest.mark.parametrize(
    "wrong",
    ["layers: 0", "step_s: -1", "train_steps: 0", "restores: 0", "resume_from: /a/b", "resume_from: '3'"],
)
def test_options_that_make_no_sense_are_refused(tmp_path: Path, wrong: str) -> None:
    name = wrong.partition(":")[0]
    with pytest.raises(Exception, match=f"{name} must (be positive|not be negative|be the folder of a step)"):
        Trainings(tmp_path, wrong)
