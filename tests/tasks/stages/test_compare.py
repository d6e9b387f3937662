"""Compare finds earlier runs in the same output, whatever else lies there."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from runtime.contract.errors import InfrastructureError
from tasks.cloud.storage import open_folder
from tasks.config.home import history_uri
from tasks.history.dataset.notes import Note, write_note
from tasks.history.dataset.rows import series_id
from tasks.history.reading import load_points, load_verdicts
from tasks.history.verdict import Verdict, Verdicts
from tasks.stages.collect import collect
from tasks.stages.compare import compare
from tasks.stages.history import open_history
from tests.tasks.history.making import make_result, make_run, make_samples, write_parts


def leave_run(output: Path, n: int, value: float = 1.0) -> None:
    run_id = f"run-{n}"
    run = make_run(output, run_id=run_id, workers=1)
    samples = make_samples([[value, value * 1.02, value * 0.98]], run_id=run_id, started_at=1000.0 * n)
    write_parts(run.folder, samples, [make_result(0, run_id=run_id)])
    collect(run)


def test_the_first_run_has_no_baseline(tmp_path: Path) -> None:
    leave_run(tmp_path, 1)
    said: list[str] = []
    verdicts = compare(make_run(tmp_path, workers=1, say=said.append))
    assert verdicts.overall is Verdict.NO_BASELINE
    assert said == ["verdict: NO_BASELINE (no earlier run to compare with)"]
    assert load_verdicts(make_run(tmp_path).folder) == verdicts


def test_history_grows_until_it_suffices(tmp_path: Path) -> None:
    found = []
    for n in range(1, 11):
        leave_run(tmp_path, n, 1.0 + 0.01 * (n % 3))
        found.append(compare(make_run(tmp_path, run_id=f"run-{n}", workers=1)))
    assert [one.overall for one in found[:8]] == [Verdict.NO_BASELINE] + [Verdict.INCONCLUSIVE] * 7
    assert {one.overall for one in found[8:]} <= {Verdict.PASS, Verdict.INCONCLUSIVE}
    assert found[9].baseline == [f"run-{n}" for n in range(9, 0, -1)]


def test_broken_neighbours_are_told_and_do_not_stop_it(tmp_path: Path) -> None:
    leave_run(tmp_path, 1)
    leave_run(tmp_path, 2)
    leave_run(tmp_path, 3)
    (tmp_path / "run-1" / "samples.parquet").write_bytes(b"PAR1")
    (tmp_path / "run-0").mkdir()
    (tmp_path / "run-0" / "points.json").write_text("{")
    (tmp_path / "notes.txt").write_text("mine")
    verdicts = compare(make_run(tmp_path, run_id="run-3", workers=1))
    assert verdicts.baseline == ["run-2"]
    assert [text.split(":")[0].rsplit("/", 2)[1] for text in verdicts.not_comparable] == ["run-0", "run-1"]


def test_a_renamed_copy_is_not_a_second_baseline(tmp_path: Path) -> None:
    leave_run(tmp_path, 1)
    leave_run(tmp_path, 2)
    copy = tmp_path / "copy-of-run-1"
    copy.mkdir()
    for name in ("points.json", "samples.parquet"):
        (copy / name).write_bytes((tmp_path / "run-1" / name).read_bytes())
    assert compare(make_run(tmp_path, run_id="run-2", workers=1)).baseline == ["run-1"]


def test_verdicts_are_json_for_others(tmp_path: Path) -> None:
    leave_run(tmp_path, 1)
    compare(make_run(tmp_path, workers=1))
    stored = json.loads((tmp_path / "run-1" / "verdicts.json").read_text())
    assert stored["overall"] == "NO_BASELINE"
    assert stored["series"][0]["operation"] == "save"


def test_what_was_not_collected_cannot_be_compared(tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match="not collected"):
        compare(make_run(tmp_path))


@pytest.fixture
def three(tmp_path: Path) -> Path:
    for n in range(1, 4):
        leave_run(tmp_path, n)
    return tmp_path


def the_third(output: Path, **changed: Any) -> Verdicts:
    run = make_run(output, run_id="run-3", workers=1)
    return compare(dataclasses.replace(run, spec=dataclasses.replace(run.spec, **changed)))


def test_a_run_that_somebody_excluded_is_no_baseline(three: Path) -> None:
    history = open_folder(history_uri())
    for night in ("run-1", "1970-01-01T00:33:20Z"):
        write_note(history, Note("exclude", night, "", "disk was full", "me", 1.0))
    verdicts = the_third(three)
    assert verdicts.baseline == []
    assert verdicts.not_comparable == [
        "run-1: excluded by me: disk was full",
        "run-2: excluded by me: disk was full",
    ]


def test_a_series_that_somebody_excluded_of_a_run_is_no_baseline(three: Path) -> None:
    points = load_points(open_folder(str(three / "run-3")))
    assert points
    series = series_id("key-tiny", "save", "time_s", points.fingerprint, "released")
    history = str(three / "history")
    write_note(open_folder(history), Note("exclude", "run-1", series, "", "me", 1.0))
    verdicts = the_third(three, history=history)
    assert verdicts.baseline == ["run-2", "run-1"]
    assert [one.effect.baseline_runs for one in verdicts.series if one.effect] == [1]


def test_notes_that_cannot_be_read_are_told_and_do_not_stop_it(three: Path) -> None:
    (Path(history_uri()) / "notes").mkdir(parents=True)
    (Path(history_uri()) / "notes" / "x.json").write_text("{")
    verdicts = the_third(three)
    assert verdicts.baseline == ["run-2", "run-1"]
    assert "x.json cannot be read" in verdicts.not_comparable[0]


def test_a_run_with_a_history_is_added_to_it_once(tmp_path: Path) -> None:
    leave_run(tmp_path, 3)
    (tmp_path / "run-3" / "request.json").write_text(
        '{"request": {"night": "2026-11-28", "track": "pinned"}}'
    )
    said: list[str] = []
    for _ in range(2):
        run = make_run(tmp_path, run_id="run-3", workers=1, say=said.append)
        compare(dataclasses.replace(run, spec=dataclasses.replace(run.spec, history=str(tmp_path / "h"))))
    assert said[-1] == f"1 series added to the history {tmp_path / 'h'}"
    (row,) = open_history(str(tmp_path / "h")).read().table().to_pylist()
    assert (row["night"], row["track"], row["run_id"]) == ("2026-11-28", "pinned", "run-3")


def test_a_history_that_cannot_be_written_costs_no_verdict(tmp_path: Path) -> None:
    leave_run(tmp_path, 3)
    said: list[str] = []
    (tmp_path / "h").write_text("a file")
    run = make_run(tmp_path, run_id="run-3", workers=1, say=said.append)
    verdicts = compare(
        dataclasses.replace(run, spec=dataclasses.replace(run.spec, history=str(tmp_path / "h")))
    )
    assert verdicts.overall is Verdict.NO_BASELINE
    assert said[-1].startswith("its numbers are not in the history: ")
    assert said[-1].endswith(f"slicebench history import {tmp_path / 'run-3'} --history {tmp_path / 'h'}")
