"""`slicebench history` takes runs in, lists series and shows one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flows.cli.main import main
from tests.flows.cli.past import leave_run
from tests.tasks.history.dataset.making import BEGAN, DAY


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three runs that lie in a folder, and a history that lies nowhere yet."""
    monkeypatch.setenv("SLICEBENCH_HISTORY", str(tmp_path / "history"))
    for n in range(3):
        leave_run(tmp_path / "runs", f"run-{n}", BEGAN + n * DAY)
    return tmp_path / "runs"


def test_runs_are_taken_in_listed_and_shown(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", "import", str(runs)]) == 0
    assert capsys.readouterr().out == f"3 runs in {runs.parent / 'history'}\n"
    assert main(["history", "list"]) == 0
    heading, line = capsys.readouterr().out.splitlines()
    assert heading.split()[:2] == ["series", "what"]
    assert "quickstart / PyTreeCheckpoint / save / time_s" in line and line.endswith("1.75 s")
    assert main(["history", line.split()[0]]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert "3 nights, 2026-11-01T02:00:00Z to 2026-11-03T02:00:00Z" in shown
    assert [one.split() for one in shown[-2:]] == [
        ["2026-11-02T02:00:00Z", "1.75", "s", "2", "run-1"],
        ["2026-11-03T02:00:00Z", "1.75", "s", "2", "run-2"],
    ]
    assert main(["history", "show", "save", "--last", "1"]) == 0
    assert "run-1" not in capsys.readouterr().out


def test_programs_get_objects(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", "import", str(runs / "run-0"), str(runs), "--json"]) == 0
    taken = json.loads(capsys.readouterr().out)["taken_in"]
    assert [one["series"] for one in taken] == [1, 1, 1, 1]
    assert main(["history", "list", "--json"]) == 0
    (series,) = json.loads(capsys.readouterr().out)["series"]
    assert (series["nights"], series["unit"], series["latest"]) == (3, "s", 1.75)
    assert main(["history", series["series"], "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [run["values"] for run in shown["runs"]] == [[1.5, 2.0]] * 3
    assert shown["holes"] == [] and shown["fingerprint"]["storage"] == "ext4"


def test_what_cannot_be_read_is_told(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (runs / "run-1" / "samples.parquet").write_bytes(b"PAR1")
    assert main(["history", "import", str(runs)]) == 3
    shown = capsys.readouterr()
    assert shown.out.startswith("2 runs in ") and "not taken in: run-1: " in shown.err
    (file,) = (runs.parent / "history" / "rows" / "month=2026-11").glob("run-0-*.parquet")
    file.write_bytes(b"PAR1")
    (runs.parent / "history" / "notes").mkdir()
    (runs.parent / "history" / "notes" / "x.json").write_text("{")
    assert main(["history", "list"]) == 0
    told = capsys.readouterr().err
    mend = "delete it, and take its runs in again by slicebench history import\n"
    assert f"{file} cannot be read: it is cut short: {mend}" in told
    assert "x.json cannot be read" in told and ": mend or delete it\n" in told


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["history", "nosuch"], "is empty, slicebench history import RUNS"),
        (["history", "show"], "SERIES is missing"),
        (["history", "import"], "PATHS is missing"),
        (["history", "import", ""], "a path is empty"),
        (["history", "import", "/nosuch/folder"], "there is no run in /nosuch/folder"),
        (["history", "list", "--history", "s3://x"], "s3:// is not a storage that slicebench knows"),
        (["history", "save", "--last", "0"], "--last must be at least 1, not 0"),
    ],
)
def test_what_is_wrong_is_said(
    runs: Path, capsys: pytest.CaptureFixture[str], words: list[str], told: str
) -> None:
    assert main(words) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["list"],
        ["show", "save"],
        ["site", "--to", "/nosuch/site"],
        ["compact"],
        ["retain", "--days", "3"],
        ["exclude", "2026-11-20", "--because", "x"],
        ["annotate", "2026-11-20", "x"],
        ["accept", "save"],
    ],
    ids=" ".join,
)
def test_a_history_that_is_named_and_not_there_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    (tmp_path / "other.txt").write_text("x")
    assert main(["history", *words, "--history", str(tmp_path)]) == 2
    assert f"there is no history in {tmp_path}, name its folder, or take runs in" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["other.txt"]


def test_runs_are_not_taken_into_what_is_no_folder(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (runs.parent / "file").write_text("x")
    where = runs.parent / "file" / "history"
    assert main(["history", "import", str(runs), "--history", str(where)]) == 2
    told = capsys.readouterr().err
    assert (
        f"the history in {where} is not writable, " in told and "name another folder with --history" in told
    )


def test_an_empty_history_is_no_error(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", "list"]) == 0
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err == f"no series in {runs.parent / 'history'}\n"
    assert main(["history", "compact"]) == 0
    assert "no run was taken in yet" in capsys.readouterr().err


def test_a_series_is_drawn_on_a_page_and_all_of_them_on_a_site(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["history", "import", str(runs)]) == 0
    capsys.readouterr()
    assert main(["history", "save", "--to", str(runs.parent / "pages")]) == 0
    page = capsys.readouterr().err.removeprefix("plot: ").strip()
    assert "run run-2" in Path(page).read_text()
    assert main(["history", "save", "--no-plot"]) == 0
    assert capsys.readouterr().err == ""
    assert main(["history", "site", "--to", str(runs.parent / "site")]) == 0
    assert capsys.readouterr().out == f"1 series in {runs.parent / 'site' / 'index.html'}\n"
    assert main(["history", "site", "--to", str(runs.parent / "site"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["series"] == 1
