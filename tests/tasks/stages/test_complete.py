"""A run that lacks nothing is known as such by what lies in its folder, whatever of it is taken away is missed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tasks.cloud.storage import Folder, open_folder
from tasks.stages.complete import complete

FILES = ("points.json", "samples.parquet", "verdicts.json", "report.html")
WHOLE = {"samples.parquet": b"PAR1 samples PAR1"}
MARKERS = ("stages/run.json", "stages/collect.json", "stages/teardown.json")


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    run = open_folder(str(tmp_path / "r1"))
    for name in FILES:
        run.write(name, WHOLE.get(name, b"{}"))
    for name in MARKERS:
        run.write(name, json.dumps({"outputs": {"whole": True}}).encode())
    run.write("outcome.json", b'{"exit_code": 0, "verdict": "PASS"}')
    return run


def test_what_has_everything_is_complete(folder: Folder) -> None:
    assert complete(folder) == {"exit_code": 0, "verdict": "PASS"}
    folder.write("outcome.json", b'{"exit_code": 4}')
    assert complete(folder) == {"exit_code": 4}, "a regression is measured and told"


@pytest.mark.parametrize("name", FILES[:3])
def test_what_is_cut_short_is_missed(folder: Folder, name: str) -> None:
    folder.write(name, (WHOLE.get(name) or b"{}")[:-1])
    assert complete(folder) is None


@pytest.mark.parametrize("name", [*FILES, *MARKERS, "outcome.json"])
def test_whatever_is_gone_or_damaged_is_missed(folder: Folder, name: str) -> None:
    folder.write(name, b"")
    assert complete(folder) is None
    folder.delete(name)
    assert complete(folder) is None


@pytest.mark.parametrize("code", [1, 2, 3, 5, 130])
def test_what_did_not_end_well_is_not_complete(folder: Folder, code: int) -> None:
    folder.write("outcome.json", json.dumps({"exit_code": code}).encode())
    assert complete(folder) is None


def test_results_that_are_not_whole_are_missed(folder: Folder) -> None:
    folder.write("stages/collect.json", b'{"outputs": {"whole": false}}')
    assert complete(folder) is None
