"""What people say of nights changes the verdicts; the history is kept small and young."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from flows.cli.main import main
from tasks.history.dataset.fold import fold
from tasks.history.dataset.store import Dataset
from tasks.stages.history import groups_of, look, open_history, read_decisions, write_decisions
from tests.tasks.history.dataset.making import DAY, row

NOW = time.time()
SLOWER = (1.10, 1.11, 1.09, 1.10)


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Dataset:
    """Thirty quiet nights, and four that take a tenth longer, up to now."""
    monkeypatch.setenv("SLICEBENCH_HISTORY", str(tmp_path / "history"))
    dataset = open_history(None)
    factors = [*(1 + 0.003 * (n * 7 % 5 - 2) for n in range(30)), *SLOWER]
    for n, factor in enumerate(factors):
        at = NOW - (len(factors) - n) * DAY
        values = [factor * one for one in (0.99, 1.0, 1.01)]
        versions = '{"jax":"0.10.2"}' if n < 30 else '{"jax":"0.11.0"}'
        dataset.append([row(n, values, began_at=at, collected_at=at + 60, versions=versions)])
    return dataset


def shown(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["history", "save", "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def changes(told: dict[str, Any]) -> list[str]:
    return [one["change"] for one in told["decisions"] if one["change"]]


def test_the_change_points_of_a_series_are_told(history: Dataset, capsys: pytest.CaptureFixture[str]) -> None:
    told = shown(capsys)
    assert (told["verdict"], changes(told)) == ("REGRESSED", ["regressed"])
    assert main(["history", "save"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[3].startswith("REGRESSED: +1")
    (change,) = (line for line in lines if " regressed " in line)
    assert change.endswith("  jax 0.10.2 → 0.11.0")


def test_an_excluded_night_changes_the_verdicts_and_an_included_one_brings_them_back(
    history: Dataset, capsys: pytest.CaptureFixture[str]
) -> None:
    write_decisions(history, fold(groups_of(look(history))))  # what was decided is no reason to stay with it
    for n in range(30, 34):
        assert main(["history", "exclude", f"run-{n}", "--because", "disk was full"]) == 0
    told = shown(capsys)
    assert (told["verdict"], changes(told), told["set_aside"]) == ("PASS", [], 4)
    assert told["runs"][-1]["set_aside"].endswith(": disk was full")
    assert len(read_decisions(history)[0]) == 34
    assert main(["history", "include", "run-33", "--series", "save"]) == 0
    assert main(["history", "include", "run-32", "--series", "save"]) == 0
    assert changes(shown(capsys)) == ["regressed"]
    assert main(["history", "include", "run-33", "--series", "save"]) == 2
    night = shown(capsys)["runs"][31]["night"]
    assert main(["history", "include", night]) == 0  # it was excluded by the name of its run


def test_an_accepted_level_closes_the_alert(history: Dataset, capsys: pytest.CaptureFixture[str]) -> None:
    began = next(one["alert_since"] for one in shown(capsys)["decisions"] if one["change"])
    assert main(["history", "accept", "save", "--because", "checksums cost that"]) == 0
    assert capsys.readouterr().out.endswith(f": the level is expected from {began} on\n")
    told = shown(capsys)
    assert told["decisions"][-1]["alert_since"] is None and told["verdict"] == "PASS"
    last, first = told["decisions"][-1], next(one for one in told["decisions"] if one["night"] == began)
    assert first["change"] == "new level" and last["level"] == pytest.approx(first["level"], rel=0.03)
    assert main(["history", "save", "--no-plot"]) == 0
    assert re.search(rf"level .* since {began}, nights scatter by", capsys.readouterr().out)
    assert "accepted: checksums cost that" in {words for run in told["runs"] for words in run["remarks"]}
    assert main(["history", "accept", "save"]) == 2
    assert "no alert is open for" in capsys.readouterr().err


def test_a_sentence_beside_a_night_changes_nothing(
    history: Dataset, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["history", "annotate", "run-3", "new disk\x1b[2J", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kind"] == "annotate"
    assert main(["history", "save", "--last", "99"]) == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "run-3 " in line)
    assert line.endswith("new disk\N{REPLACEMENT CHARACTER}[2J")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ["exclude", "run-3"],
            "a night is excluded for a reason, which stands beside it, add --because REASON",
        ),
        (["include", "run-3"], "run-3 is not excluded, see what does not count"),
        (["include", "run-3", "--series", "save"], "run-3 is not excluded of save-"),
        (["exclude", "run-99", "--because", "x"], "there is no night and no run 'run-99'"),
        (["exclude", "runn-33", "--because", "x"], "did you mean run-33"),
        (["exclude", ""], "NIGHT is empty"),
        (["annotate", "run-3", ""], "the text is empty"),
        (["exclude", "run-3", "--because", "x", "--series", "nosuch"], "there is no series 'nosuch'"),
        (["accept", "save", "--from", "2020-01-01"], "has no night '2020-01-01'"),
        (["retain"], "--days needs a value"),
        (["retain", "--days", "0"], "--days must be at least 1, not 0"),
    ],
)
def test_what_is_wrong_is_said(
    history: Dataset, capsys: pytest.CaptureFixture[str], words: list[str], told: str
) -> None:
    assert main(["history", *words]) == 2
    assert told in capsys.readouterr().err
    assert not list(history.folder.names("notes"))


def test_the_history_is_kept_small_and_young(history: Dataset, capsys: pytest.CaptureFixture[str]) -> None:
    before = shown(capsys)
    assert main(["history", "compact"]) == 0
    assert capsys.readouterr().out.startswith("34 files became ")
    assert shown(capsys) == before
    assert main(["history", "retain", "--days", "15", "--json"]) == 0
    assert shown(capsys)["nights"] == 15 or shown(capsys)["nights"] == 14


@pytest.fixture
def slow_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight series of one machine with twenty quiet nights, and three in which all take a tenth longer."""
    monkeypatch.setenv("SLICEBENCH_HISTORY", str(tmp_path / "history"))
    dataset, rows = open_history(None), []
    for n in range(23):
        at = NOW - (23 - n) * DAY
        for key in range(8):
            factor = (1.1 if n >= 20 else 1.0) * (1 + 0.003 * ((n * 7 + key * 3) % 5 - 2))
            jax = '{"jax":"0.11.0"}' if n >= 20 else '{"jax":"0.10.2"}'
            about = {"benchmark_key": f"key-{key}", "began_at": at, "collected_at": at + 60, "versions": jax}
            rows.append(row(n, [factor * one for one in (0.99, 1.0, 1.01)], **about))
    dataset.append(rows)


def test_what_a_whole_machine_shows_is_told_and_accepted_by_its_own_name(
    slow_machine: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["history", "machine-", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["name"], len(told["series"])) == ("all times on local (unknown, released)", 8)
    assert [one["change"] for one in told["decisions"]] == [None, "regressed", None]  # nobody ran it again
    name = told["machine"]
    assert main(["history", name]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].startswith("REGRESSED: +10 % since") and "+10 %" in lines[-1]
    first = told["decisions"][0]["night"]
    assert main(["bisect", name, "--good", first, "--dry-run"]) == 2
    assert "no version differs between" in capsys.readouterr().err  # both nights were slow
    assert main(["bisect", name, "--dry-run", "--json"]) == 0
    assert [one["words"] for one in json.loads(capsys.readouterr().out)["builds"]] == [
        "JAX 0.10.2",
        "JAX 0.11.0",
    ]
    assert main(["history", "accept", name, "--because", "slower disk"]) == 0
    assert capsys.readouterr().out.startswith(f"{name}: the level is expected from ")
    assert main(["history", name]) == 0
    assert "PASS: its series together are where they are expected" in capsys.readouterr().out
    assert main(["history", "accept", name]) == 2
    assert main(["history", "machine-none"]) == 2
    assert f"those that there are: {name}" in capsys.readouterr().err
