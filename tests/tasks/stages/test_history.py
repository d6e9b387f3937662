"""Runs that lie in folders are taken into the history, once, and what is no run is said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runtime.contract.errors import BadInput
from tasks.history.dataset.store import Dataset
from tasks.stages.history import Looked, look, open_history, take_in
from tests.flows.cli.past import leave_run
from tests.tasks.history.dataset.making import BEGAN, DAY


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    return open_history(str(tmp_path / "history"))


def test_an_output_is_taken_in_once(tmp_path: Path, dataset: Dataset) -> None:
    for n in range(3):
        leave_run(tmp_path / "runs", f"run-{n}", BEGAN + n * DAY)
    (tmp_path / "runs" / "notes").mkdir()
    for _ in range(2):
        found = take_in(dataset, str(tmp_path / "runs"))
        assert [(one.what, one.series, one.why_not) for one in found] == [
            (f"run-{n}", 1, "") for n in range(3)
        ]
    (series,) = look(dataset).records.series.values()
    assert len(series.nights) == 3
    assert series.about["origin"] == str(tmp_path / "runs" / "run-2")


def test_a_run_that_goes_on_is_not_taken_in_and_one_that_ended_without_results_is_a_hole(
    tmp_path: Path, dataset: Dataset
) -> None:
    leave_run(tmp_path / "runs", "good", BEGAN)
    folder = leave_run(tmp_path / "runs", "late", BEGAN + DAY, ended=False)
    (found,) = take_in(dataset, str(folder))
    assert found.why_not == "it has not ended"
    (folder / "outcome.json").write_text(json.dumps({"exit_code": 3, "causes": ["no quota"]}))
    take_in(dataset, str(tmp_path / "runs"))
    looked = look(dataset)
    (series,) = looked.records.series.values()
    assert [(hole.run_id, hole.cause) for hole in looked.records.holes(series)] == [("late", "no quota")]


def test_a_damaged_run_is_told_and_the_others_are_taken_in(tmp_path: Path, dataset: Dataset) -> None:
    for n in range(2):
        leave_run(tmp_path / "runs", f"run-{n}", BEGAN + n * DAY)
    samples = tmp_path / "runs" / "run-0" / "samples.parquet"
    samples.write_bytes(samples.read_bytes()[:50])
    bad, good = take_in(dataset, str(tmp_path / "runs"))
    assert "is cut short" in bad.why_not and good.series == 1


def test_where_no_run_lies_nothing_is_taken_in(tmp_path: Path, dataset: Dataset) -> None:
    with pytest.raises(BadInput, match="there is no run in"):
        take_in(dataset, str(tmp_path))
    assert not (tmp_path / "history").exists()


@pytest.mark.parametrize("word", ["{id}", "{start}", "save", "QUICKSTART save/time_s", "imagined ext4"])
def test_a_series_is_found_by_id_and_by_words(tmp_path: Path, dataset: Dataset, word: str) -> None:
    leave_run(tmp_path / "runs", "run-1", BEGAN)
    take_in(dataset, str(tmp_path / "runs"))
    looked = look(dataset)
    (id_,) = looked.records.series
    assert looked.find(word.format(id=id_, start=id_[:4])).id == id_


def test_a_word_for_no_series_or_several_is_refused(tmp_path: Path, dataset: Dataset) -> None:
    with pytest.raises(BadInput, match="is empty"):
        look(dataset).find("save")
    leave_run(tmp_path / "runs", "run-1", BEGAN)
    take_in(dataset, str(tmp_path / "runs"))
    looked = look(dataset)
    with pytest.raises(BadInput, match="no series 'restore'"):
        looked.find("restore")
    row = {**dataset.read().table().to_pylist()[0], "series": "ffff", "track": "pr 1", "operation": "saved"}
    dataset.append([{**row, "run_id": "run-2"}])
    looked: Looked = look(dataset)
    assert looked.find("save").about["operation"] == "save"
    with pytest.raises(BadInput, match="could be any of 2"):
        looked.find("time_s")


CASE = Path(__file__).parents[2] / "cases" / "orbax" / "baseline.json"


@pytest.mark.parametrize("uri", [str(CASE), str(CASE.parent)])
def test_baselines_of_orbax_are_taken_in_by_file_and_by_folder(dataset: Dataset, uri: str) -> None:
    for _ in range(2):
        (taken,) = take_in(dataset, uri)
        assert (taken.what, taken.why_not) == (str(CASE), "")
    assert len(look(dataset).records.series) == taken.series
    assert look(dataset).find("PyTreeCheckpointBenchmark restore time_s").latest == pytest.approx(
        0.03165, 1e-3
    )


def test_a_file_that_is_not_there_or_no_baseline_is_refused(tmp_path: Path, dataset: Dataset) -> None:
    (tmp_path / "x.json").write_text("{}")
    for name, why in (("x.json", "no baseline of Orbax's"), ("y.json", "there is no file")):
        with pytest.raises(BadInput, match=why):
            take_in(dataset, str(tmp_path / name))
