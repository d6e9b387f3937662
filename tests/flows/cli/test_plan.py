"""`slicebench plan`: the facts of a run that is not made, for people and for programs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from flows.cli.main import main


def test_people_get_a_fact_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "quickstart", "--output", str(tmp_path), "--run-id", "r1"]) == 0
    lines = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines())
    assert re.fullmatch(r" *Quickstart: 2 points, \d repeats each", lines["suite"])
    assert lines["output"].strip() == f"{tmp_path}/r1"


def test_programs_get_numbers_and_the_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "quickstart", "--output", str(tmp_path), "--run-id", "r1", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["run_id"], told["points"], told["output"]) == ("r1", 2, f"{tmp_path}/r1")
    assert told["workers"] == 2
    assert list(tmp_path.iterdir()) == []


def test_what_a_plan_cannot_obey_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "quickstart", "--from", "run"]) == 2
    assert "--from is for a run that exists" in capsys.readouterr().err
