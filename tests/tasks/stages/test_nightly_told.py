"""What a night comes to once it was judged: what is run again, the report and its pages, and the alerts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from runtime.contract.errors import InfrastructureError
from runtime.contract.expand import expand
from runtime.contract.suite_reader import read_suite
from tasks.history.night_told import NightTold, SeriesTold
from tasks.history.verdict import Verdict
from tasks.stages.nightly_cell import Work
from tasks.stages.nightly_plan import Planned
from tasks.stages.nightly_playing import Steps
from tasks.stages.nightly_record import CellEnd, NightRecord
from tasks.stages.nightly_report import page_of
from tests.tasks.stages.judges import Judge
from tests.tasks.stages.nights import Nights, play

SLOW = SeriesTold(
    "s1", "save", "one · here · pinned", Verdict.REGRESSED, "+10 %", 0.1, 0.09, 0.11, 1e-6, "regressed"
)
QUIET = replace(SLOW, verdict=Verdict.PASS, reason="within noise", told="", effect=0.001)


def test_what_stands_out_is_run_again_once_and_judged_then(nights: Nights) -> None:
    night = nights.night(["one", "two"])
    judge = Judge(stands_out=["two"], says=NightTold([SLOW]))
    record = play(nights, night, judge=judge)
    assert [len(cell.runs) for cell in record.cells] == [1, 2]
    assert [run.rerun for run in record.cells[1].runs] == [0, 1]
    assert judge.taken[-1].endswith("-again")
    assert record.exit_code == 4
    # Once more: the second run made nothing stand out, and it is not forgotten.
    again = play(nights, night, judge=Judge(says=NightTold([SLOW])))
    assert again.cells == record.cells
    assert len(nights.calls) == 3


SWEEP = "suite_name: one\nbenchmarks: [{generator: my.Own, options: {x: [1, 2, 3, 4]}}]\n"


def test_of_a_suite_only_what_stands_out_is_run_again_and_the_report_says_so(nights: Nights) -> None:
    night = nights.night()
    (nights.folder / "one.yaml").write_text(SWEEP)
    keys = [one.key for one in expand(read_suite(SWEEP, "one.yaml"))]
    record = play(nights, night, judge=Judge(stands_out=["one"], keys=[keys[2]]))
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
    again = play(nights, night, judge=Judge(stands_out=["one"], keys=keys))
    assert again.cells == record.cells and len(nights.calls) == 2
    (nights.folder / "runs/n-20261129/again.json").write_text(json.dumps([cell.title]))
    assert len(play(nights, night, judge=Judge()).cells[0].runs) == 2


def test_what_did_not_run_or_is_measured_in_turns_is_not_run_again(nights: Nights) -> None:
    nights.plan(one={"code": 3})
    versions = ["pinned", {"branch": "b", "against": "pinned", "rounds": 3}]
    record = play(nights, nights.night(versions=versions, exclude=[]), judge=Judge(stands_out=["one"]))
    assert not any(call.endswith("-again") for call in nights.calls)
    assert record.exit_code == 3


def test_a_night_that_nobody_could_judge_is_red(nights: Nights) -> None:
    record = play(nights, nights.night(), judge=Judge(away=True))
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
    record = play(nights, nights.night(), judge=Judge(says=NightTold(series)))
    page = page_of(record, "/runs/night")
    assert (page["verdict"], page["mood"]) == (told, "good" if told == "PASS" else "calm")
    assert ("too few nights" in page["verdict_means"]) is (told != "PASS")


def test_what_stands_out_and_is_no_change_yet_is_told_and_the_night_is_not_green(nights: Nights) -> None:
    far = replace(QUIET, name="far", verdict=Verdict.INCONCLUSIVE, reason="+15 % in one run", open=True)
    record = play(nights, nights.night(), judge=Judge(says=NightTold([QUIET, far])))
    page = page_of(record, "/runs/night")
    assert (record.exit_code, page["verdict"], page["mood"]) == (0, "INCONCLUSIVE", "calm")
    assert page["verdict_means"].startswith("Everything ran. 1 series stands out and is no change yet")
    assert "INCONCLUSIVE     far  (+15 % in one run)" in record.summary
    html = (nights.folder / "runs" / "n-20261129" / "report.html").read_text()
    assert "What stands out and is undecided" in html
    noisy = replace(far, open=False)
    record = play(nights, nights.night(date="2026-11-30"), judge=Judge(says=NightTold([QUIET, noisy])))
    assert (page_of(record, "/runs/night")["verdict"], len(record.summary)) == ("PASS", 2)


def _alerts(record: NightRecord) -> list[tuple[str, str]]:
    return [(event.kind, event.what) for event in record.alerts]


def test_a_machine_of_which_all_got_worse_is_one_alert_until_it_is_back(nights: Nights) -> None:
    whole = replace(SLOW, series="machine-3fa2c1", name="all times on local (CPU, released)", whole=True)
    record = play(nights, nights.night(), judge=Judge(says=NightTold([whole, QUIET])))
    assert (record.exit_code, _alerts(record)) == (4, [("opened", "regressed")])
    assert "all times on local (CPU, released) got worse together. 1 series: 1 PASS." in record.summary[-1]
    page = (nights.folder / "runs" / "n-20261129" / "report.html").read_text()
    assert "got worse together" in page and "machine-3fa2c1.html" not in page  # it has no page of its own
    back = NightTold([QUIET], right={"machine-3fa2c1": "back at its level, two runs in a row"})
    record = play(nights, nights.night(date="2026-11-30"), judge=Judge(says=back))
    assert (record.exit_code, _alerts(record)) == (0, [("closed", "regressed")])


def test_the_report_draws_each_series_and_leads_to_its_page(nights: Nights) -> None:
    says = NightTold([replace(SLOW, unit="s", recent=[1.0, 1.01, 1.1], level=1.0)])
    record = play(nights, nights.night(), judge=Judge(says=says))
    assert record.site == f"{nights.folder}/runs/series"
    index = nights.folder / "runs" / "series" / "index.html"
    page = (nights.folder / "runs" / "n-20261129" / "report.html").read_text()
    assert 'class="spark bad"' in page and 'href="../series/series/s1.html"' in page
    assert 'href="../series/index.html"' in page and index.exists()
    record = play(nights, nights.night(site=False, date="2026-11-30"), judge=Judge(says=says))
    page = (nights.folder / "runs" / "n-20261130" / "report.html").read_text()
    assert record.site == "" and 'class="spark bad"' in page and "../series" not in page


def test_pages_that_cannot_be_written_are_told_and_the_night_is_what_it_is(
    nights: Nights, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*given: object) -> int:
        raise InfrastructureError("No space left on device")

    monkeypatch.setattr("tasks.stages.history_site.write_site", full)
    record = play(nights, nights.night())
    assert (record.exit_code, record.site) == (0, "")
    assert record.troubles == ["the pages of all series could not be written: No space left on device"]


def test_one_alert_for_each_series_and_cell_closed_when_it_recovers(nights: Nights) -> None:
    nights.plan(two={"code": 3})
    suites = ["one", "two"]
    first = play(nights, nights.night(suites), judge=Judge(says=NightTold([SLOW])))
    assert sorted(_alerts(first)) == [("opened", "not_run"), ("opened", "regressed")]
    still = replace(SLOW, since="2026-11-29", told="")
    second = play(nights, nights.night(suites, "2026-11-30"), judge=Judge(says=NightTold([still])))
    assert (_alerts(second), len(second.open_alerts), second.exit_code) == ([], 2, 3)
    nights.plan()
    back = NightTold([QUIET], right={"s1": "back at its level"})
    third = play(nights, nights.night(suites, "2026-12-01"), judge=Judge(says=back))
    assert sorted(_alerts(third)) == [("closed", "not_run"), ("closed", "regressed")]
    assert (third.open_alerts, third.exit_code) == ([], 0)
    page = (nights.folder / "runs/n-20261201/report.html").read_text()
    assert "back at its level" in page
    assert "CLOSED" in page
    fourth = play(nights, nights.night(suites, "2026-12-02"), judge=Judge(says=back))
    assert _alerts(fourth) == []


def test_a_cell_that_is_no_longer_measured_has_no_alert(nights: Nights) -> None:
    nights.plan(two={"code": 3})
    play(nights, nights.night(["one", "two"]))
    record = play(nights, nights.night(["one"], "2026-11-30"))
    assert _alerts(record) == [("closed", "not_run")]


def test_a_night_played_again_alerts_nobody_twice_and_what_runs_then_closes(nights: Nights) -> None:
    nights.plan(one={"code": 3})
    night = nights.night(["one", "two"])
    play(nights, night)
    assert _alerts(play(nights, night)) == [("opened", "not_run")]
    nights.plan()
    assert _alerts(play(nights, night)) == [("opened", "not_run"), ("closed", "not_run")]


def test_an_interrupted_night_alerts_nobody(nights: Nights) -> None:
    def interrupted(work: Work, planned: Planned) -> CellEnd:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        play(nights, nights.night(), Steps(interrupted))
    assert not (nights.folder / "history" / "alerts").exists()
    assert json.loads((nights.folder / "runs/n-20261129/night.json").read_text())["exit_code"] == 130
