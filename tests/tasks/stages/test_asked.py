"""A run is listed, and its time counts, from when it was asked for: not only once Prefect has come up for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flows.cli.main import main
from tasks.cloud.storage import open_folder
from tasks.config.request import RunRequest
from tasks.stages.asked import ASKED_FILE, asked_for, read_asked
from tasks.stages.logs import has_ended
from tasks.stages.past import find_run, past_runs
from tasks.stages.prepare import admit, begin, prepare


def asked_in(output: Path) -> RunRequest:
    return RunRequest(suite="quickstart", output=str(output), run_id="r-1")


def test_a_run_that_is_starting_is_listed_and_one_that_never_began_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec, folder = admit(asked_in(tmp_path))
    with asked_for(folder, spec):
        (run,) = past_runs(open_folder(str(tmp_path)))
        assert (run.run_id, run.state, run.suite, run.target) == ("r-1", "starting", "Quickstart", "local")
        assert find_run(open_folder(str(tmp_path)), "latest").uri == folder.uri
        assert main(["explain", "r-1", "--output", str(tmp_path)]) == 0
        assert capsys.readouterr().out.startswith("r-1: it is starting: ")
    assert list(tmp_path.iterdir()) == []


def test_its_time_counts_from_when_it_was_asked_for(tmp_path: Path) -> None:
    spec, folder = admit(asked_in(tmp_path))
    with asked_for(folder, spec):
        asked = read_asked(folder)
        assert asked is not None
        run = prepare(asked_in(tmp_path), print)
        begin(run, asked_in(tmp_path))
        assert json.loads(folder.read("request.json") or b"")["created_at"] == asked.at
        assert json.loads(folder.read("passes.json") or b"")[0]["began_at"] == asked.at
        assert [run.state for run in past_runs(open_folder(str(tmp_path)))] == ["unfinished"]
    assert folder.read("request.json") is not None


def test_a_run_that_is_to_go_on_has_not_ended_until_it_does(tmp_path: Path) -> None:
    folder = open_folder(str(tmp_path / "r-1"))
    folder.write("outcome.json", b"{}")
    assert has_ended(folder)
    with asked_for(folder, admit(asked_in(tmp_path))[0]):
        assert not has_ended(folder)


def test_who_asked_and_was_killed_asks_for_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec, folder = admit(asked_in(tmp_path))
    with asked_for(folder, spec):
        left = json.loads(folder.read(ASKED_FILE) or b"")
    left["owner"] |= {"started_at": 0.5}
    folder.write(ASKED_FILE, json.dumps(left).encode())
    assert read_asked(folder) is None and past_runs(open_folder(str(tmp_path))) == []
    folder.write(ASKED_FILE, b'{"at": 1')
    assert read_asked(folder) is None
    for words in (["explain", "r-1"], ["run", "--resume", "r-1"]):
        assert main([*words, "--output", str(tmp_path)]) == 2
        assert "its command ended before that, and nothing was made" in capsys.readouterr().err
