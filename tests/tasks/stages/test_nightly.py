"""A night: every cell runs once, elsewhere where there is no room, within time and money; what is missing is red."""

from __future__ import annotations

import json
import signal
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runtime.contract.errors import BadInput, InfrastructureError
from runtime.contract.expand import expand
from runtime.contract.suite_reader import read_suite
from tasks.config.nightly_cells import Night
from tasks.history.night_told import NightTold, SeriesTold
from tasks.history.verdict import Verdict
from tasks.stages.nightly import play_night
from tasks.stages.nightly_cell import Work, play_cell
from tasks.stages.nightly_plan import Planned
from tasks.stages.nightly_playing import Steps
from tasks.stages.nightly_record import CellEnd, NightRecord
from tasks.stages.nightly_report import page_of
from tests.tasks.stages.judges import Judge
from tests.tasks.stages.nights import Nights

TPU = "kind: tpu_vm\nproject: p\nzones: [us-east5-b]\ntype: v6e-16\n"  # 16 chips at $2.70
BUCKET = "gs://some-bucket/runs"


@pytest.fixture
def nights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Nights:
    monkeypatch.setenv("SLICEBENCH_HOME", str(tmp_path / "home"))
    return Nights(tmp_path)


def _play(
    nights: Nights, night: Night, steps: Steps | None = None, judge: Judge | None = None
) -> NightRecord:
    steps = replace(steps or Steps(), judge=lambda night: judge or Judge())
    return play_night(night, nights.hands(), lambda line: None, steps)


def _of(record: NightRecord) -> dict[str, tuple[str, str]]:
    return {
        cell.suite.removeprefix("./").removesuffix(".yaml"): (cell.status, cell.cause)
        for cell in record.cells
    }


def test_what_ran_and_what_did_not_is_told_and_the_exit_code_follows(nights: Nights) -> None:
    nights.plan(bad={"code": 1}, lost={"code": 3}, red={"code": 2, "causes": ["no such class"]})
    record = _play(nights, nights.night(["good", "bad", "lost", "red"]))
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
    assert _play(nights, nights.night()).exit_code == code


def test_a_night_that_is_played_again_does_nothing_twice(nights: Nights) -> None:
    night = nights.night(["one", "two"])
    first = _play(nights, night)
    second = _play(nights, night)
    assert len(nights.calls) == 2
    assert (second.began_at, second.cells) == (first.began_at, first.cells)


def test_a_suite_that_cannot_be_read_is_not_run_and_the_others_are(nights: Nights) -> None:
    night = nights.night(["one", "two"])
    (nights.folder / "two.yaml").write_text("suite_name: two\nbenchmarcks: []\n")
    record = _play(nights, night)
    assert _of(record)["one"][0] == "passed"
    assert _of(record)["two"][0] == "not_run"
    assert "two.yaml:2:1: unknown key" in _of(record)["two"][1]
    assert record.exit_code == 3


def test_a_night_of_which_nothing_can_start_is_refused_and_makes_nothing(nights: Nights) -> None:
    night = nights.night()
    (nights.folder / "one.yaml").unlink()
    with pytest.raises(BadInput):
        _play(nights, night)
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
    [cell] = _play(nights, night).cells
    assert (cell.status, cell.target, cell.at) == ("passed", "./east.yaml", "./west.yaml")
    assert cell.tried == ["./east.yaml: no zone has room"]
    assert (cell.cost.chip_hours, cell.cost.dollars) == (pytest.approx(16.0), pytest.approx(43.2))


def test_without_room_anywhere_it_is_not_run(nights: Nights, monkeypatch: pytest.MonkeyPatch) -> None:
    night = _with_tpu(nights, monkeypatch)
    nights.plan(one={"code": 3, "trouble": "stockout", "causes": ["no zone has room"]})
    record = _play(nights, night)
    [cell] = record.cells
    assert (cell.status, cell.trouble, record.exit_code) == ("not_run", "stockout", 3)
    assert cell.cost.dollars == 0.0
    assert [call.split()[0] for call in nights.calls] == ["run", "run"]


def test_other_trouble_is_not_tried_elsewhere(nights: Nights, monkeypatch: pytest.MonkeyPatch) -> None:
    night = _with_tpu(nights, monkeypatch)
    nights.plan(one={"code": 3})
    [cell] = _play(nights, night).cells
    assert (cell.at, len(nights.calls)) == ("./east.yaml", 1)


def test_the_budget_begins_nothing_that_may_cost_more_than_is_left(
    nights: Nights, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One hour at $43.20 each is what a run may take at most, and takes.
    night = _with_tpu(nights, monkeypatch, suites=["one", "two"], budget=80, limits={"cell": "1h"})
    record = _play(nights, night)
    assert _of(record)["one"][0] == "passed"
    assert _of(record)["two"] == (
        "not_run",
        "the budget of $80.00 a night has $36.80 left, and the run may cost up to $43.20",
    )
    again = _play(nights, night)  # what was spent before counts
    assert _of(again) == _of(record)
    assert len(nights.calls) == 1


def test_after_the_nights_time_nothing_begins(nights: Nights) -> None:
    record = _play(nights, nights.night(limits={"night": "0s"}))
    assert _of(record)["one"] == ("not_run", "the night's time of 0s was over before its turn came")
    assert nights.calls == []


def test_versions_in_turns_alternate_and_begin_by_turns(nights: Nights) -> None:
    night = nights.night(versions=[{"branch": "mine", "against": "pinned", "rounds": 3}])
    [cell] = _play(nights, night).cells
    assert [call.rpartition("-")[2] for call in nights.calls] == ["1a", "1b", "2b", "2a", "3a", "3b"]
    assert [run.side for run in cell.runs] == ["here", "other", "other", "here", "here", "other"]


def test_different_hardware_goes_side_by_side_and_the_same_one_after_the_other(
    nights: Nights, monkeypatch: pytest.MonkeyPatch
) -> None:
    night = _with_tpu(nights, monkeypatch, targets=["./east.yaml", "./west.yaml"], elsewhere={})
    both = threading.Barrier(2, timeout=60)

    def together(work: Work, planned: Planned) -> CellEnd:
        both.wait()
        return play_cell(work, planned)

    assert _play(nights, night, Steps(together)).exit_code == 0
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

    _play(nights, nights.night(["three", "four", "five"]), Steps(alone))
    assert most == 1


def test_an_interrupted_night_stops_its_runs_says_so_and_is_gone_on_with(nights: Nights) -> None:
    night = nights.night(["one", "two"])
    nights.plan(one={"hang": True})

    def interrupted(work: Work, planned: Planned) -> CellEnd:
        main = threading.main_thread().ident
        begun = threading.Timer(0.3, signal.pthread_kill, [main, signal.SIGINT])
        begun.start()
        try:
            return play_cell(work, planned)
        finally:
            begun.cancel()

    with pytest.raises(KeyboardInterrupt):
        _play(nights, night, Steps(interrupted))
    told = json.loads((nights.folder / "runs" / "n-20261129" / "night.json").read_text())
    assert told["exit_code"] == 130
    assert told["cells"][0]["trouble"] == "stopped"
    nights.plan()
    assert _play(nights, night).exit_code == 0
    assert [call.split()[0] for call in nights.calls] == ["run", "resume", "run"]


SLOW = SeriesTold(
    "s1", "save", "one · here · pinned", Verdict.REGRESSED, "+10 %", 0.1, 0.09, 0.11, 1e-6, "regressed"
)
QUIET = replace(SLOW, verdict=Verdict.PASS, reason="within noise", told="", effect=0.001)


def test_what_stands_out_is_run_again_once_and_judged_then(nights: Nights) -> None:
    night = nights.night(["one", "two"])
    judge = Judge(stands_out=["two"], says=NightTold([SLOW]))
    record = _play(nights, night, judge=judge)
    assert [len(cell.runs) for cell in record.cells] == [1, 2]
    assert [run.rerun for run in record.cells[1].runs] == [0, 1]
    assert judge.taken[-1].endswith("-again")
    assert record.exit_code == 4
    # Once more: the second run made nothing stand out, and it is not forgotten.
    again = _play(nights, night, judge=Judge(says=NightTold([SLOW])))
    assert again.cells == record.cells
    assert len(nights.calls) == 3


SWEEP = "suite_name: one\nbenchmarks: [{generator: my.Own, options: {x: [1, 2, 3, 4]}}]\n"


def test_of_a_suite_only_what_stands_out_is_run_again_and_the_report_says_so(nights: Nights) -> None:
    night = nights.night()
    (nights.folder / "one.yaml").write_text(SWEEP)
    keys = [one.key for one in expand(read_suite(SWEEP, "one.yaml"))]
    record = _play(nights, night, judge=Judge(stands_out=["one"], keys=[keys[2]]))
    [cell] = record.cells
    assert cell.again == "2 of 4 benchmarks"
    words = json.loads((Path(cell.runs[1].folder) / "request.json").read_text())["words"]
    (only,) = [word for word in words if word.startswith("only=")]
    assert json.loads(only.removeprefix("only=")) == [keys[0], keys[2]]
    assert not any(
        "only=" in word
        for word in json.loads((Path(cell.runs[0].folder) / "request.json").read_text())["words"]
    )
    assert "the second: 2 of 4 benchmarks" in (nights.folder / "runs/n-20261129/report.html").read_text()
    # Gone on with, it repeats what it chose at first, as does a night that an earlier version began.
    again = _play(nights, night, judge=Judge(stands_out=["one"], keys=keys))
    assert again.cells == record.cells and len(nights.calls) == 2
    (nights.folder / "runs/n-20261129/again.json").write_text(json.dumps([cell.title]))
    assert len(_play(nights, night, judge=Judge()).cells[0].runs) == 2


def test_what_did_not_run_or_is_measured_in_turns_is_not_run_again(nights: Nights) -> None:
    nights.plan(one={"code": 3})
    versions = ["pinned", {"branch": "b", "against": "pinned", "rounds": 3}]
    record = _play(nights, nights.night(versions=versions, exclude=[]), judge=Judge(stands_out=["one"]))
    assert not any(call.endswith("-again") for call in nights.calls)
    assert record.exit_code == 3


def test_a_night_that_nobody_could_judge_is_red(nights: Nights) -> None:
    record = _play(nights, nights.night(), judge=Judge(away=True))
    assert (record.exit_code, record.troubles) == (3, ["nothing was judged: the bucket is away"])
    assert "the bucket is away" in (nights.folder / "runs/n-20261129/report.html").read_text()


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ([Verdict.NO_BASELINE, Verdict.NO_BASELINE], "NO_BASELINE"),
        ([Verdict.INCONCLUSIVE, Verdict.INCONCLUSIVE], "INCONCLUSIVE"),
        ([Verdict.NO_BASELINE, Verdict.PASS], "PASS"),
    ],
)
def test_a_night_of_which_nothing_could_be_compared_is_not_green(
    nights: Nights, found: list[Verdict], told: str
) -> None:
    series = [replace(QUIET, verdict=verdict, series=f"s{n}") for n, verdict in enumerate(found)]
    record = _play(nights, nights.night(), judge=Judge(says=NightTold(series)))
    page = page_of(record, "/runs/night")
    assert (page["verdict"], page["mood"]) == (told, "good" if told == "PASS" else "calm")
    assert ("too few nights" in page["verdict_means"]) is (told != "PASS")


def _alerts(record: NightRecord) -> list[tuple[str, str]]:
    return [(event.kind, event.what) for event in record.alerts]


def test_the_report_draws_each_series_and_leads_to_its_page(nights: Nights) -> None:
    says = NightTold([replace(SLOW, unit="s", recent=[1.0, 1.01, 1.1], level=1.0)])
    record = _play(nights, nights.night(), judge=Judge(says=says))
    assert record.site == f"{nights.folder}/runs/series"
    index = nights.folder / "runs" / "series" / "index.html"
    page = (nights.folder / "runs" / "n-20261129" / "report.html").read_text()
    assert 'class="spark bad"' in page and 'href="../series/series/s1.html"' in page
    assert 'href="../series/index.html"' in page and index.exists()
    record = _play(nights, nights.night(site=False, date="2026-11-30"), judge=Judge(says=says))
    page = (nights.folder / "runs" / "n-20261130" / "report.html").read_text()
    assert record.site == "" and 'class="spark bad"' in page and "../series" not in page


def test_pages_that_cannot_be_written_are_told_and_the_night_is_what_it_is(
    nights: Nights, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*given: object) -> int:
        raise InfrastructureError("No space left on device")

    monkeypatch.setattr("tasks.stages.history_site.write_site", full)
    record = _play(nights, nights.night())
    assert (record.exit_code, record.site) == (0, "")
    assert record.troubles == ["the pages of all series could not be written: No space left on device"]


def test_one_alert_for_each_series_and_cell_closed_when_it_recovers(nights: Nights) -> None:
    nights.plan(two={"code": 3})
    suites = ["one", "two"]
    first = _play(nights, nights.night(suites), judge=Judge(says=NightTold([SLOW])))
    assert sorted(_alerts(first)) == [("opened", "not_run"), ("opened", "regressed")]
    still = replace(SLOW, since="2026-11-29", told="")
    second = _play(nights, nights.night(suites, "2026-11-30"), judge=Judge(says=NightTold([still])))
    assert (_alerts(second), len(second.open_alerts), second.exit_code) == ([], 2, 3)
    nights.plan()
    back = NightTold([QUIET], right={"s1": "back at its level"})
    third = _play(nights, nights.night(suites, "2026-12-01"), judge=Judge(says=back))
    assert sorted(_alerts(third)) == [("closed", "not_run"), ("closed", "regressed")]
    assert (third.open_alerts, third.exit_code) == ([], 0)
    page = (nights.folder / "runs/n-20261201/report.html").read_text()
    assert "back at its level" in page
    assert "CLOSED" in page
    fourth = _play(nights, nights.night(suites, "2026-12-02"), judge=Judge(says=back))
    assert _alerts(fourth) == []


def test_a_cell_that_is_no_longer_measured_has_no_alert(nights: Nights) -> None:
    nights.plan(two={"code": 3})
    _play(nights, nights.night(["one", "two"]))
    record = _play(nights, nights.night(["one"], "2026-11-30"))
    assert _alerts(record) == [("closed", "not_run")]


def test_a_night_played_again_alerts_nobody_twice_and_what_runs_then_closes(nights: Nights) -> None:
    nights.plan(one={"code": 3})
    night = nights.night(["one", "two"])
    _play(nights, night)
    assert _alerts(_play(nights, night)) == [("opened", "not_run")]
    nights.plan()
    assert _alerts(_play(nights, night)) == [("opened", "not_run"), ("closed", "not_run")]


def test_an_interrupted_night_alerts_nobody(nights: Nights) -> None:
    def interrupted(work: Work, planned: Planned) -> CellEnd:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _play(nights, nights.night(), Steps(interrupted))
    assert not (nights.folder / "history" / "alerts").exists()
    assert json.loads((nights.folder / "runs/n-20261129/night.json").read_text())["exit_code"] == 130
