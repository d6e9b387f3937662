"""`slicebench nightly` and `check` of nightlies: what is wrong is refused before anything is made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flows.cli.main import main


def test_a_name_that_is_none_is_refused_with_those_that_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nightly", "defolt"]) == 2
    assert "there is no nightly 'defolt', did you mean default?" in capsys.readouterr().err


def test_a_date_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nightly", "default", "--night", "tonight"]) == 2
    assert "'tonight' is no night, write its date, as 2026-11-30" in capsys.readouterr().err


def test_check_looks_at_all_that_a_nightly_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "night.yaml"
    file.write_text("name: n\nsuites: [quickstart, nosuch]\ntargets: [local]\nversions: [pinned]\n")
    assert main(["check", str(file), "--json"]) == 2
    told, words = capsys.readouterr()
    [checked] = json.loads(told)["files"]
    assert (checked["kind"], checked["ok"]) == ("nightly", False)
    assert "nosuch · local · pinned: there is no suite 'nosuch'" in words
    file.write_text("name: n\nsuites: [quickstart]\n")
    assert main(["check", str(file)]) == 0
    assert "ok, a nightly of 1 cell" in capsys.readouterr().err
    assert not any(one.name != "night.yaml" for one in tmp_path.iterdir())
