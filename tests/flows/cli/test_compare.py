"""`slicebench compare RUN --to RUN` says what differs, or why it cannot say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flows.cli.main import main
from tests.flows.cli.past import leave_run
from tests.tasks.history.dataset.making import BEGAN, DAY


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for n in range(2):
        leave_run(tmp_path, f"run-{n}", BEGAN + n * DAY)
    return tmp_path


def test_two_runs_are_compared(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "latest", "--to", "run-0", "--output", str(runs)]) == 0
    shown = capsys.readouterr()
    heading, line = shown.out.splitlines()
    assert heading.split()[:4] == ["benchmark", "what", "run-0", "run-1"]
    assert line.split()[:2] == ["PyTreeCheckpoint", "save"] and line.endswith("no difference")
    assert " not known " in line
    assert "how much runs differ by themselves is not known" in shown.err
    page = Path(shown.err.splitlines()[-1].partition("plot: ")[2]).read_text()
    assert (
        page.count('class="dot save"') == 5 and "None of 1 series differs" in page
    )  # four, and one in the legend
    assert "how much runs differ by themselves is not known" in page


def test_a_page_goes_where_it_is_wanted_or_nowhere(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["compare", "run-1", "--to", "run-0", "--output", str(runs)]
    assert main([*words, "--page", str(runs / "pages")]) == 0
    assert [path.name for path in (runs / "pages").iterdir()] == ["run-1-to-run-0.html"]
    capsys.readouterr()
    assert main([*words, "--no-plot"]) == 0
    assert "plot" not in capsys.readouterr().err


def test_a_page_that_nobody_asked_for_is_no_failure(
    runs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (runs / "home").mkdir()
    (runs / "home" / "comparisons").write_text("no folder")
    monkeypatch.setenv("SLICEBENCH_HOME", str(runs / "home"))
    words = ["compare", "run-1", "--to", "run-0", "--output", str(runs)]
    assert main(words) == 0
    assert "no plot could be drawn: " in capsys.readouterr().err
    assert main([*words, "--page", str(runs / "home" / "comparisons")]) == 3


def test_programs_get_the_repeats_and_runs_are_found_by_their_folders(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", str(runs / "run-1"), "--to", str(runs / "run-0"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    (series,) = told["series"]
    assert (told["run"], told["to"]) == ("run-1", "run-0")
    assert series["values"] == series["to_values"] == [1.5, 2.0]
    assert (series["finding"], series["larger"], series["change"]) == ("no difference", 0.5, 0.0)


def test_a_history_says_how_much_runs_differ(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for n in range(2, 10):
        leave_run(runs, f"run-{n}", BEGAN + n * DAY)
    assert main(["history", "import", str(runs)]) == 0
    capsys.readouterr()
    assert main(["compare", "run-1", "--to", "run-0", "--output", str(runs)]) == 0
    shown = capsys.readouterr()
    assert "±" in shown.out.splitlines()[1] and "not known" not in shown.err


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["run-1", "--to", "run-1"], 2, "run-1 cannot be compared with run-1: they are one and the same run"),
        (["run-1", "--to", "nosuch"], 2, "there is no run 'nosuch'"),
        (["run-1"], 2, "--to needs a value"),
        (["run-1", "--to", ""], 2, "--to is empty"),
        (["run-1", "--to", "begun"], 3, "begun was not collected yet"),
        (["run-1", "--to", "other"], 2, "they ran on different machines: storage gs instead of ext4"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    runs: Path, capsys: pytest.CaptureFixture[str], words: list[str], code: int, told: str
) -> None:
    leave_run(runs, "begun", BEGAN, ended=False)
    points = json.loads((leave_run(runs, "other", BEGAN) / "points.json").read_text())
    points["fingerprint"]["storage"] = "gs"
    (runs / "other" / "points.json").write_text(json.dumps(points))
    assert main(["compare", *words, "--output", str(runs)]) == code
    assert told in capsys.readouterr().err


def test_a_history_that_cannot_be_read_is_told(
    runs: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "x.json").write_text("{")
    assert main(["compare", "run-1", "--to", "run-0", "--output", str(runs), "--history", str(tmp_path)]) == 0
    assert "x.json cannot be read" in capsys.readouterr().err
