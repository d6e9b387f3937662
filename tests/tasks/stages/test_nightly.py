"""A night: every cell runs once, elsewhere where there is no room, within time and money; what is missing is red."""

from __future__ import annotations

import json
import signal
import threading
from typing import Any

import pytest

from runtime.contract.errors import BadInput
from tasks.config.nightly_cells import Night
from tasks.stages.nightly_cell import Work, play_cell
from tasks.stages.nightly_plan import Planned
from tasks.stages.nightly_playing import Steps
from tasks.stages.nightly_record import CellEnd, NightRecord
from tests.tasks.stages.nights import Nights, play
from tests.waiting import PATIENCE_S, until

TPU = "kind: tpu_vm\nproject: p\nzones: [us-east5-b]\ntype: v6e-16\n"  # 16 chips at $2.70
BUCKET = "gs://some-bucket/runs"


def _of(record: NightRecord) -> dict[str, tuple[str, str]]:
    return {
        cell.suite.removeprefix("./").removesuffix(".yaml"): (cell.status, cell.cause)
        for cell in record.cells
    }


def test_what_ran_and_what_did_not_is_told_and_the_exit_code_follows(nights: Nights) -> None:
    nights.plan(bad={"code": 1}, lost={"code": 3}, red={"code": 2, "causes": ["no such class"]})
    record = play(nights, nights.night(["good", "bad", "lost", "red"]))
    assert _of(record) == {
        "good": ("passed", ""),
        "bad": ("failed", "it went wrong"),
        "lost": ("not_run", "it went wrong"),
        "red": ("not_run", "no such class"),
    }
    assert record.exit_code == 3
    page = (nights.folder / "runs" / "n-20261129" / "report.html").read_text()
    assert "1 of 4 cells ran, 1 failed, 2 did not run." in page
    assert "no such class" in page
    assert "NOT_RUN" in page


@pytest.mark.parametrize(
    ("plan", "code"),
    [({}, 0), ({"code": 1}, 1), ({"code": 2}, 3), ({"code": 3}, 3), ({"code": 5}, 5), ({"code": 4}, 0)],
)
def test_exit_codes(nights: Nights, plan: dict[str, Any], code: int) -> None:
    # That one run was slower than before is for the night to judge, over all series.
    nights.plan(one=plan)
    assert play(nights, nights.night()).exit_code == code


def test_a_night_that_is_played_again_does_nothing_twice(nights: Nights) -> None:
    night = nights.night(["one", "two"])
    first = play(nights, night)
    second = play(nights, night)
    assert len(nights.calls) == 2
    assert (second.began_at, second.cells) == (first.began_at, first.cells)


def test_a_suite_that_cannot_be_read_is_not_run_and_the_others_are(nights: Nights) -> None:
    night = nights.night(["one", "two"])
    (nights.folder / "two.yaml").write_text("suite_name: two\nbenchmarcks: []\n")
    record = play(nights, night)
    assert _of(record)["one"][0] == "passed"
    assert _of(record)["two"][0] == "not_run"
    assert "two.yaml:2:1: unknown key" in _of(record)["two"][1]
    assert record.exit_code == 3


def test_a_night_of_which_nothing_can_start_is_refused_and_makes_nothing(nights: Nights) -> None:
    night = nights.night()
    (nights.folder / "one.yaml").unlink()
    with pytest.raises(BadInput):
        play(nights, night)
    assert not (nights.folder / "runs").exists()


def _with_tpu(nights: Nights, monkeypatch: pytest.MonkeyPatch, **fields: Any) -> Night:
    """A night on a TPU with room elsewhere; its runs lie here all the same."""
    for name in ("east", "west"):
        (nights.folder / f"{name}.yaml").write_text(TPU)
    usual: dict[str, Any] = {"targets": ["./east.yaml"], "elsewhere": {"./east.yaml": ["./west.yaml"]}}
    night = nights.night(**usual | fields)
    monkeypatch.setattr("tasks.targets.tpu_plan._warnings", lambda *args: [])  # which ask for a bucket
    return night


def test_without_room_it_is_tried_elsewhere(nights: Nights, monkeypatch: pytest.MonkeyPatch) -> None:
    night = _with_tpu(nights, monkeypatch)
    nights.plan(one_east={"code": 3, "trouble": "stockout", "causes": ["no zone has room"]})
    [cell] = play(nights, night).cells
    assert (cell.status, cell.target, cell.at) == ("passed", "./east.yaml", "./west.yaml")
    assert cell.tried == ["./east.yaml: no zone has room"]
    assert (cell.cost.chip_hours, cell.cost.dollars) == (pytest.approx(16.0), pytest.approx(43.2))


def test_without_room_anywhere_it_is_not_run(nights: Nights, monkeypatch: pytest.MonkeyPatch) -> None:
    night = _with_tpu(nights, monkeypatch)
    nights.plan(one={"code": 3, "trouble": "stockout", "causes": ["no zone has room"]})
    record = play(nights, night)
    [cell] = record.cells
    assert (cell.status, cell.trouble, record.exit_code) == ("not_run", "stockout", 3)
    assert cell.cost.dollars == 0.0
    assert [call.split()[0] for call in nights.calls] == ["run", "run"]


def test_other_trouble_is_not_tried_elsewhere(nights: Nights, monkeypatch: pytest.MonkeyPatch) -> None:
    night = _with_tpu(nights, monkeypatch)
    nights.plan(one={"code": 3})
    [cell] = play(nights, night).cells
    assert (cell.at, len(nights.calls)) == ("./east.yaml", 1)


def test_the_budget_begins_nothing_that_may_cost_more_than_is_left(
    nights: Nights, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One hour at $43.20 each is what a run may take at most, and takes.
    night = _with_tpu(nights, monkeypatch, suites=["one", "two"], budget=80, limits={"cell": "1h"})
    record = play(nights, night)
    assert _of(record)["one"][0] == "passed"
    assert _of(record)["two"] == (
        "not_run",
        "the budget of $80.00 a night has $36.80 left, and the run may cost up to $43.20",
    )
    again = play(nights, night)  # what was spent before counts
    assert _of(again) == _of(record)
    assert len(nights.calls) == 1


def test_after_the_nights_time_nothing_begins(nights: Nights) -> None:
    record = play(nights, nights.night(limits={"night": "0s"}))
    assert _of(record)["one"] == ("not_run", "the night's time of 0s was over before its turn came")
    assert nights.calls == []


def test_versions_in_turns_alternate_and_begin_by_turns(nights: Nights) -> None:
    night = nights.night(versions=[{"branch": "mine", "against": "pinned", "rounds": 3}])
    [cell] = play(nights, night).cells
    assert [call.rpartition("-")[2] for call in nights.calls] == ["1a", "1b", "2b", "2a", "3a", "3b"]
    assert [run.side for run in cell.runs] == ["here", "other", "other", "here", "here", "other"]


def test_different_hardware_goes_side_by_side_and_the_same_one_after_the_other(
    nights: Nights, monkeypatch: pytest.MonkeyPatch
) -> None:
    night = _with_tpu(nights, monkeypatch, targets=["./east.yaml", "./west.yaml"], elsewhere={})
    both = threading.Barrier(2, timeout=PATIENCE_S)

    def together(work: Work, planned: Planned) -> CellEnd:
        both.wait()
        return play_cell(work, planned)

    assert play(nights, night, Steps(together)).exit_code == 0
    here, most = 0, 0
    lock = threading.Lock()

    def alone(work: Work, planned: Planned) -> CellEnd:
        nonlocal here, most
        with lock:
            here += 1
            most = max(most, here)
        try:
            return play_cell(work, planned)
        finally:
            with lock:
                here -= 1

    play(nights, nights.night(["three", "four", "five"]), Steps(alone))
    assert most == 1


def test_an_interrupted_night_stops_its_runs_says_so_and_is_gone_on_with(nights: Nights) -> None:
    night = nights.night(["one", "two"])
    nights.plan(one={"hang": True})

    def interrupted(work: Work, planned: Planned) -> CellEnd:
        main = threading.main_thread().ident
        assert main is not None

        def interrupt() -> None:
            until(lambda: nights.calls)
            signal.pthread_kill(main, signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        try:
            return play_cell(work, planned)
        finally:
            thread.join()

    with pytest.raises(KeyboardInterrupt):
        play(nights, night, Steps(interrupted))
    told = json.loads((nights.folder / "runs" / "n-20261129" / "night.json").read_text())
    assert told["exit_code"] == 130
    assert told["cells"][0]["trouble"] == "stopped"
    nights.plan()
    assert play(nights, night).exit_code == 0
    assert [call.split()[0] for call in nights.calls] == ["run", "resume", "run"]
