"""How a run ended is one file, and the exit code is the first that applies."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from runtime.contract.errors import ExitCode, worst
from tasks.cloud.storage import open_folder
from tasks.stages.context import Run
from tasks.stages.files import OUTCOME_FILE
from tasks.stages.finish import finish


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ([], 0),
        ([ExitCode.REGRESSION, ExitCode.WORKLOAD_FAILED], 1),
        ([ExitCode.WORKLOAD_FAILED, ExitCode.INFRASTRUCTURE], 3),
        ([ExitCode.INFRASTRUCTURE, ExitCode.BAD_INPUT], 2),
        ([ExitCode.BAD_INPUT, ExitCode.INTERRUPTED], 130),
        ([ExitCode.INTERRUPTED, ExitCode.LEAKED], 5),
    ],
)
def test_worst_takes_the_first_that_applies(codes: list[ExitCode], expected: int) -> None:
    assert worst(codes) == expected


def test_finish_writes_what_a_caller_needs(tmp_path: Path) -> None:
    spec = SimpleNamespace(run_id="r-1", suite_name="s", target_name="local", told_left_out=["1 of 2"])
    folder = open_folder(str(tmp_path / "r-1"))
    run = cast(Run, SimpleNamespace(spec=cast(Any, spec), folder=folder))

    code = finish(run, [ExitCode.DONE, ExitCode.WORKLOAD_FAILED], ["save failed"], "NOT_RUN", None)

    assert code == ExitCode.WORKLOAD_FAILED
    written = json.loads((tmp_path / "r-1" / OUTCOME_FILE).read_text())
    assert written["left_out"] == ["1 of 2"]
    assert (written["exit_code"], written["causes"], written["verdict"]) == (1, ["save failed"], "NOT_RUN")
