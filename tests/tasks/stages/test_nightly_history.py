"""A night that asks the history: what stands out runs again, what both runs show is a change, what is back is told."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tasks.cloud.storage import open_folder
from tasks.history.dataset.of_machine import name_of_machine
from tasks.history.dataset.store import Dataset
from tasks.history.night_told import NightTold, SeriesTold
from tasks.history.verdict import Verdict
from tasks.stages.collect import collect
from tasks.stages.history import read_decisions, rows_of_folder
from tasks.stages.nightly_history import HistoryJudge
from tasks.stages.nightly_record import CellEnd
from tasks.stages.nightly_run import RunEnd
from tests.tasks.history.making import make_point, make_result, make_run, make_samples, write_parts

AT = 1795954543.0  # 2026-11-29
NAMES = [f"bench{n}" for n in range(9)]


class Place:
    """Runs and a history."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.random = np.random.default_rng(5)
        self.dataset = Dataset(open_folder(str(folder / "history")))

    def chance(self, by: float) -> float:
        """Returns a factor that is off by so much, as a standard deviation."""
        return float(np.exp(by * self.random.standard_normal()))

    def run(self, night: str, factors: Mapping[str, float], *, rerun: int = 0, side: str = "here") -> RunEnd:
        """Makes a run of nine benchmarks that take a second each, half a per cent off by chance, times a factor."""
        run_id = f"n-{night}-{side}-{rerun}"
        run = make_run(
            self.folder / "runs",
            run_id=run_id,
            points=[make_point(n, name) for n, name in enumerate(NAMES)],
            workers=1,
        )
        samples, results = [], []
        for n, name in enumerate(NAMES):
            off = factors.get(name, factors.get("all", 1.0)) * self.chance(0.005)
            values = [off * self.chance(0.002) for _ in range(5)]
            samples += make_samples([values], run_id=run_id, point=n, benchmark=name, started_at=AT)
            results.append(make_result(run_id=run_id, point=n, benchmark=name))
        write_parts(run.folder, samples, results)
        request = {
            "request": {"night": night},
            "created_at": AT,
            "suite_name": "quickstart",
            "target": "local",
        }
        run.folder.write("request.json", json.dumps(request).encode())
        collect(run)
        return RunEnd(
            run_id,
            run.folder.uri,
            "local",
            "passed",
            0,
            began_at=AT,
            ended_at=AT + 60,
            side=side,
            rerun=rerun,
        )

    def remember(self, nights: int) -> None:
        """Fills the history with nights before, each like a run of its own."""
        rows = rows_of_folder(open_folder(self.run("seed", {}).folder))
        for day in range(nights):
            self.dataset.append(
                [
                    {
                        **row,
                        "night": f"2026-10-{day + 1:02d}",
                        "run_id": f"earlier-{day}",
                        "began_at": AT - 86400.0 * (nights - day),
                        "collected_at": AT - 86400.0 * (nights - day),
                        "values": _times(row["values"], self.chance(0.005)),
                    }
                    for row in rows
                    if row.get("series")
                ]
            )

    def judge(self, night: str, **thresholds: float) -> HistoryJudge:
        return HistoryJudge(self.dataset, night, thresholds)


def _times(values: Sequence[float], factor: float) -> list[float]:
    return [value * factor for value in values]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def cell(*runs: RunEnd, title: str = "quickstart · local · pinned") -> CellEnd:
    return CellEnd(title, "quickstart", "local", "pinned", "local", "passed", runs=list(runs))


def of(told: NightTold, end: RunEnd, name: str) -> SeriesTold:
    """Returns what is told of the time of a benchmark."""
    rows = rows_of_folder(open_folder(end.folder))
    (series,) = [row["series"] for row in rows if row["benchmark"] == name]
    (found,) = [one for one in told.series if one.series == series]
    return found


def verdicts(told: NightTold) -> Sequence[Verdict]:
    return [one.verdict for one in told.series]


def test_without_a_history_nothing_stands_out_and_nothing_has_a_baseline(place: Place) -> None:
    cells = [cell(place.run("2026-11-29", {}))]
    judge = place.judge("2026-11-29")
    assert judge.take_in(cells) == []
    assert judge.suspects(cells) == {}
    assert set(verdicts(judge.decide(cells))) == {Verdict.NO_BASELINE}


def test_what_nobody_measures_any_more_is_not_wrong_for_ever(place: Place) -> None:
    ended = cell(place.run("2026-11-29", {}))
    (seen, *_) = rows_of_folder(open_folder(ended.runs[0].folder))
    earlier = {"run_id": "e", "night": "e", "began_at": AT - 15 * 86400.0, "track": "released"}
    place.dataset.append([{**seen, **earlier, "series": "save-gone", "machine": "gone"}])
    judge = place.judge("2026-11-29")
    told = {name: why for name, why in judge.decide([ended]).right.items() if "not measured" in why}
    assert told.keys() == {"save-gone", name_of_machine("gone/released")}
    did_not_run = replace(cell(title="another"), status="not_run")
    assert told.keys().isdisjoint(judge.decide([ended, did_not_run]).right), "it may be one of that cell"


def test_one_series_that_is_slower_stands_out_is_seen_twice_and_comes_back(place: Place) -> None:
    place.remember(20)
    slow = {"bench3": 1.1}
    first = cell(place.run("2026-11-29", slow))
    judge = place.judge("2026-11-29")
    judge.take_in([first])
    assert judge.suspects([first]) == {first.title: {"key-bench3"}}
    both = cell(*first.runs, place.run("2026-11-29", slow, rerun=1))
    judge.take_in([both])
    told = judge.decide([both])
    found = of(told, first.runs[0], "bench3")
    assert (found.verdict, found.told, found.since) == (Verdict.REGRESSED, "regressed", "2026-11-29")
    assert found.effect == pytest.approx(0.1, abs=0.02)
    assert (len(found.recent), found.unit) == (21, "s")
    assert found.recent[-1] == pytest.approx(1.1, rel=0.02) and found.level == pytest.approx(1.0, rel=0.01)
    assert verdicts(told).count(Verdict.REGRESSED) == 1
    assert found.series not in told.right
    decided = read_decisions(place.dataset)[0]
    again = place.judge("2026-11-29")
    again.take_in([both])
    assert again.decide([both]).series == told.series
    assert read_decisions(place.dataset)[0] == decided, "the same again is nothing new"
    back = cell(place.run("2026-11-30", {}), place.run("2026-11-30", {}, rerun=1))
    after = place.judge("2026-11-30")
    after.take_in([back])
    told = after.decide([back])
    assert of(told, back.runs[0], "bench3").verdict is not Verdict.REGRESSED
    assert told.right[found.series] == "back at its level, two runs in a row"


def test_what_changes_less_than_counts_is_no_change(place: Place) -> None:
    place.remember(20)
    slow = {"bench3": 1.1}
    cells = [cell(place.run("2026-11-29", slow), place.run("2026-11-29", slow, rerun=1))]
    judge = place.judge("2026-11-29", time_s=0.2)
    judge.take_in(cells)
    assert of(judge.decide(cells), cells[0].runs[0], "bench3").verdict is Verdict.PASS


def test_what_a_whole_machine_is_off_by_is_told_once_and_nobody_is_blamed(place: Place) -> None:
    place.remember(20)
    cells = [cell(place.run("2026-11-29", {"all": 1.08}), place.run("2026-11-29", {"all": 1.08}, rerun=1))]
    judge = place.judge("2026-11-29")
    judge.take_in(cells)
    told = judge.decide(cells)
    (worse,) = (one for one in told.series if one.verdict is Verdict.REGRESSED)
    assert worse.whole and worse.name == "all times on local (Imagined CPU, released)"
    assert (worse.told, worse.since) == ("regressed", "2026-11-29") and worse.effect == pytest.approx(
        0.08, abs=0.01
    )
    (shift,) = told.shifts
    assert shift.startswith("Nearly all series of local (Imagined CPU, released) were off by +")


def test_versions_in_turns_are_judged_by_each_other(place: Place) -> None:
    runs = []
    for turn in range(5):
        runs.append(place.run("2026-11-29", {"bench2": 1.1}, rerun=turn))
        runs.append(place.run("2026-11-29", {}, rerun=turn, side="other"))
    turns = cell(*runs, title="quickstart · local · pr-7")
    judge = place.judge("2026-11-29")
    told = judge.decide([turns])
    slower = [one.series for one in told.series if one.verdict is Verdict.REGRESSED]
    assert slower == ["quickstart · local · pr-7/key-bench2/save/time_s"]
    assert told.series[0].cell == "quickstart · local · pr-7"


def test_a_run_that_cannot_be_read_is_told_and_the_others_are_judged(place: Place) -> None:
    good, bad = place.run("2026-11-29", {}), place.run("2026-11-29", {}, rerun=1)
    (Path(bad.folder) / "samples.parquet").write_bytes(b"PAR1 torn")
    cells = [cell(good), cell(bad, title="other")]
    judge = place.judge("2026-11-29")
    assert any("is not in the history" in told for told in judge.take_in(cells))
    told = judge.decide(cells)
    assert {one.cell for one in told.series} == {"quickstart · local · pinned"}
    assert any(bad.run_id in trouble for trouble in told.troubles)
