"""`slicebench report` says where the report lies, and makes it again when it is gone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flows.cli.main import main
from tests.flows.cli.past import leave_run


def test_the_path_goes_to_stdout_and_the_table_to_people(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = leave_run(tmp_path, "run-1", 1000.0)
    assert main(["report", "run-1", "--output", str(tmp_path)]) == 0
    shown = capsys.readouterr()
    assert shown.out == f"{folder / 'report.html'}\n"
    assert "PyTreeCheckpoint" in shown.err
    assert "verdict: NO_BASELINE" in shown.err


def test_a_missing_report_is_made_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = leave_run(tmp_path, "run-1", 1000.0)
    (folder / "report.html").unlink()
    assert main(["report", "run-1", "--output", str(tmp_path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert Path(told["report"]).read_text().startswith("<!doctype html>")
    assert told["verdict"] == "NO_BASELINE"


def test_json_holds_numbers_in_seconds_and_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    leave_run(tmp_path, "run-1", 1000.0)
    assert main(["report", "run-1", "--output", str(tmp_path), "--json"]) == 0
    (point,) = json.loads(capsys.readouterr().out)["points"]
    (operation,) = point["operations"]
    assert (operation["operation"], operation["role"], operation["repeats"]) == ("save", "save", 2)
    assert (operation["median_s"], operation["interval_confidence"]) == (1.75, 0.5)
    assert (operation["interval_low_s"], operation["interval_high_s"]) == (1.5, 2.0)
    assert (operation["payload_bytes"], point["save_until_safe_bytes_per_s"]) == (None, None)
    (series,) = point["series"]
    assert (series["median"], series["unit"], series["change"], series["baseline_runs"]) == (
        1.75,
        "s",
        None,
        0,
    )


def test_without_results_json_still_says_where_the_page_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = leave_run(tmp_path, "run-1", 1000.0)
    (folder / "points.json").unlink()
    assert main(["report", "run-1", "--output", str(tmp_path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == {
        "report": f"{folder / 'report.html'}",
        "run_id": "run-1",
        "suite": None,
        "target": None,
        "verdict": None,
        "reason": None,
        "baseline": [],
        "machine": [],
        "limits": {},
        "points": [],
    }


@pytest.mark.parametrize(("word", "meant"), [("latest", "new-2"), ("old", "old-1"), ("new-1", "new-1")])
def test_a_run_goes_by_its_beginning_or_as_the_latest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], word: str, meant: str
) -> None:
    for n, name in enumerate(("old-1", "new-1", "new-2", "new-11")):
        leave_run(tmp_path, name, 1000.0 + (n if name != "new-11" else -5))
    assert main(["report", word, "--output", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"{tmp_path / meant / 'report.html'}\n"


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("quikstart-1", "did you mean quickstart-1"),
        ("quick", "could be any of quickstart-1, quickstart-2"),
        ("nosuch", "'nosuch' in {output}, see slicebench runs --output {output}\n"),
        ("", "'' in {output}, see slicebench runs --output {output}\n"),
    ],
)
def test_an_unknown_run_is_refused_with_the_nearest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], word: str, said: str
) -> None:
    leave_run(tmp_path, "quickstart-1", 1000.0, ended=False)
    leave_run(tmp_path, "quickstart-2", 2000.0, ended=False)
    assert main(["report", word, "--output", str(tmp_path)]) == 2
    assert said.format(output=tmp_path) in capsys.readouterr().err


@pytest.mark.parametrize("word", ["latest", "x", "../..", ""])
def test_no_run_at_all_is_refused(tmp_path: Path, word: str) -> None:
    assert main(["report", word, "--output", str(tmp_path)]) == 2


def test_a_run_that_ended_before_it_had_results_says_how_and_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = leave_run(tmp_path, "run-1", 1000.0, ended=False)
    cause = "slicebench's process 4711 on laptop was killed during RUN"
    (folder / "outcome.json").write_text(json.dumps({"exit_code": 3, "causes": [cause]}))
    assert main(["report", "run-1", "--output", str(tmp_path)]) == 3
    told = capsys.readouterr().err
    assert f"ended with exit code 3 before its results were collected: {cause}; " in told
    assert told.endswith(f"slicebench run --resume run-1 --output {tmp_path}\n")


def test_a_run_that_was_not_collected_says_how_to_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    leave_run(tmp_path, "run-1", 1000.0, ended=False)
    assert main(["report", "run-1", "--output", str(tmp_path)]) == 3
    assert "--from collect" in capsys.readouterr().err
