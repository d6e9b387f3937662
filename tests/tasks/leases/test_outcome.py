"""The passes of a run: how long it took is their sum, and while one goes on nothing says that it has ended."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from runtime.contract.errors import ExitCode
from tasks.cloud.storage import Folder, open_folder
from tasks.leases.outcome import End, begin_pass, last_word_at, write_outcome

ABOUT = {"run_id": "r1", "suite": "s", "target": "local"}


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return open_folder(str(tmp_path / "r1"))


def end(folder: Folder, at: float, code: ExitCode = ExitCode.DONE, *, replace: bool = True) -> dict[str, Any]:
    write_outcome(folder, ABOUT, End(code, [], at), replace=replace)
    return dict(json.loads(folder.read("outcome.json") or b""))


def test_a_resumed_run_took_the_sum_of_its_passes(folder: Folder) -> None:
    begin_pass(folder, 100.0)
    assert end(folder, 130.0, ExitCode.WORKLOAD_FAILED)["took_s"] == 30.0
    begin_pass(folder, 5000.0)
    assert folder.read("outcome.json") is None
    told = end(folder, 5012.0)
    assert (told["took_s"], told["finished_at"]) == (42.0, 5012.0)


def test_a_pass_that_nobody_saw_end_adds_nothing_that_is_not_known(folder: Folder) -> None:
    begin_pass(folder, 100.0)
    begin_pass(folder, 5000.0)
    assert end(folder, 5010.0)["took_s"] == 10.0


def test_a_pass_whose_end_was_told_in_its_stead_counts_up_to_there(folder: Folder) -> None:
    begin_pass(folder, 100.0)
    assert end(folder, 120.0, ExitCode.INFRASTRUCTURE, replace=False)["took_s"] == 20.0
    assert end(folder, 777.0, replace=False)["finished_at"] == 120.0, "told once"
    begin_pass(folder, 5000.0)
    assert end(folder, 5010.0)["took_s"] == 30.0


def test_a_run_of_a_slicebench_without_passes_goes_on(folder: Folder) -> None:
    folder.write("request.json", b'{"created_at": 100.0}')
    folder.write("outcome.json", b'{"finished_at": 160.0}')
    begin_pass(folder, 5000.0)
    assert end(folder, 5001.0)["took_s"] == 61.0


@pytest.mark.parametrize("content", [b"", b"{", b"3", b'[{"began_at": 1.0}, 7]'])
def test_damaged_passes_are_none_and_stop_nothing(folder: Folder, content: bytes) -> None:
    folder.write("passes.json", content)
    assert end(folder, 9.0)["took_s"] is None
    begin_pass(folder, 100.0)
    assert end(folder, 101.0)["took_s"] >= 1.0


def test_time_never_runs_backwards(folder: Folder) -> None:
    begin_pass(folder, 100.0)
    assert end(folder, 40.0)["took_s"] == 0.0


def test_a_pass_that_was_killed_took_until_its_last_word(folder: Folder) -> None:
    begin_pass(folder, 100.0)
    folder.write(
        "run.log", b"1970-01-01T00:01:50.500+00:00 at work\n1970-01-01T00:02:07+00:00 saved\nno time\n"
    )
    assert (last_word_at(folder), last_word_at(folder, 120.0)) == (127.0, 110.5)
    begin_pass(folder, 5000.0)
    assert end(folder, 5010.0)["took_s"] == 27.0 + 10.0
